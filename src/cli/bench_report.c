/* What `legwork bench` shows: a bar while it runs, a table or JSON at the end. */
#include "cli/bench.h"

#include "cli/screen.h"
#include "server/json.h"

#define BAR_WIDTH 30
#define BUSY 0.9 /* share of a core: from here on this process may be what is slow */

/* 1,234,567 */
static struct lw__words grouped(uint64_t number) {
    struct lw__words words, plain;
    size_t size =
        (size_t)snprintf(plain.text, sizeof plain.text, "%llu", (unsigned long long)number);
    size_t at = 0;
    for (size_t i = 0; i < size; i++) {
        if (i > 0 && (size - i) % 3 == 0)
            words.text[at++] = ',';
        words.text[at++] = plain.text[i];
    }
    words.text[at] = '\0';
    return words;
}

static double rate_of(const struct lw__load_figures *figures, double seconds) {
    return seconds > 0 ? (double)figures->tasks / seconds : 0;
}

/* ---- the bar ------------------------------------------------------------------------------- */

static double share_done(const struct lw__load *load, double seconds) {
    double of_time = load->plan.for_us > 0 ? seconds * 1e6 / (double)load->plan.for_us : 0;
    double of_tasks =
        load->plan.tasks > 0 ? (double)load->figures.tasks / (double)load->plan.tasks : 0;
    double share = of_time > of_tasks ? of_time : of_tasks;
    return share < 1 ? share : 1;
}

static void put_bar(struct lw__buffer *page, const struct lw__style *style, double share) {
    int filled = (int)(share * BAR_WIDTH);
    for (int i = 0; i < BAR_WIDTH; i++)
        lw__put_toned(page, style, i < filled ? LW__GREEN : LW__DIM,
                      style->has_symbols ? (i < filled ? "█" : "░")
                      : i < filled       ? "#"
                                         : ".");
}

void lw__bench_tick(void *user) {
    struct lw__bench *bench = user;
    const struct lw__load *load = &bench->load;
    struct lw__buffer page;
    if (!bench->style.is_terminal)
        return;
    double seconds = (double)(lw__load_now_us(load) - load->figures.begun_us) / 1e6;
    lw__page_begin(&page);
    lw__buffer_put_text(&page, "\r\x1b[K");
    if (bench->is_cleaning) {
        lw__buffer_print(&page, "cleaning up: %s tasks finished",
                         grouped(load->figures.tasks).text);
    } else {
        put_bar(&page, &bench->style, share_done(load, seconds));
        lw__buffer_print(&page, " %3.0f %%  %s tasks/s", share_done(load, seconds) * 100,
                         grouped((uint64_t)rate_of(&load->figures, seconds)).text);
    }
    lw__page_print(&page, stderr);
    bench->has_bar = true;
}

void lw__bench_wipe(struct lw__bench *bench) {
    if (bench->has_bar)
        fputs("\r\x1b[K", stderr);
    bench->has_bar = false;
}

/* ---- the table ----------------------------------------------------------------------------- */

struct row {
    const char *name;
    const struct lw__latency *latency;
};

#define ROWS 4

static void list_rows(const struct lw__load_figures *figures, struct row *rows) {
    rows[0] = (struct row){"submit", &figures->steps[LW__LOAD_SUBMIT]};
    rows[1] = (struct row){"claim", &figures->steps[LW__LOAD_CLAIM]};
    rows[2] = (struct row){"finish", &figures->steps[LW__LOAD_SETTLE]};
    rows[3] = (struct row){"life", &figures->lives};
}

static void add_ms(struct lw__table *table, uint64_t us) {
    struct lw__words words;
    double ms = (double)us / 1000;
    snprintf(words.text, sizeof words.text, ms < 10 ? "%.2f" : ms < 100 ? "%.1f" : "%.0f", ms);
    lw__table_add(table, LW__PLAIN, words.text);
}

static void put_table(const struct lw__load_figures *figures, struct lw__buffer *page) {
    static const struct lw__table_column columns[] = {{"step", false},  {"count", true},
                                                      {"p50 ms", true}, {"p90 ms", true},
                                                      {"p99 ms", true}, {"max ms", true}};
    struct lw__style style = lw__style_of(stdout);
    struct lw__table table;
    struct row rows[ROWS];
    list_rows(figures, rows);
    lw__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < ROWS; i++) {
        const struct lw__latency *latency = rows[i].latency;
        if (latency->count == 0)
            continue;
        lw__table_add(&table, LW__PLAIN, rows[i].name);
        lw__table_add(&table, LW__PLAIN, grouped(latency->count).text);
        add_ms(&table, lw__latency_quantile(latency, 0.5));
        add_ms(&table, lw__latency_quantile(latency, 0.9));
        add_ms(&table, lw__latency_quantile(latency, 0.99));
        add_ms(&table, latency->max_us);
    }
    lw__table_write(&table, &style, page);
    lw__table_clear(&table);
}

static void print_report(const struct lw__bench *bench) {
    const struct lw__bench_values *values = bench->values;
    double seconds = lw__load_seconds(&bench->figures);
    struct lw__buffer page;
    lw__page_begin(&page);
    lw__buffer_print(&page, "%s tasks/s",
                     grouped((uint64_t)rate_of(&bench->figures, seconds)).text);
    lw__buffer_print(&page, ": %s in %.2f s, %s%s\n", grouped(bench->figures.tasks).text, seconds,
                     values->mode == 0 ? "submitted, claimed and finished" : "submitted",
                     bench->was_stopped ? "; interrupted" : "");
    lw__buffer_print(&page,
                     "connections %lld, in flight %lld, batch %lld, payloads of %lld bytes\n\n",
                     (long long)values->connections, (long long)values->in_flight,
                     (long long)values->batch, (long long)values->size);
    put_table(&bench->figures, &page);
    lw__page_print(&page, stdout);
    if (bench->busy > BUSY)
        fprintf(stderr,
                "this process was busy for %.0f %% of the time: the server may be faster than it\n",
                bench->busy * 100);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void put_number(struct lw__json_writer *json, const char *name, uint64_t number) {
    lw__json_key(json, name);
    lw__json_put_uint(json, number);
}

static void put_latency(struct lw__json_writer *json, const struct row *row) {
    const struct lw__latency *latency = row->latency;
    if (latency->count == 0)
        return;
    lw__json_key(json, row->name);
    lw__json_object(json);
    put_number(json, "count", latency->count);
    put_number(json, "mean_us", latency->sum_us / latency->count);
    put_number(json, "p50_us", lw__latency_quantile(latency, 0.5));
    put_number(json, "p90_us", lw__latency_quantile(latency, 0.9));
    put_number(json, "p99_us", lw__latency_quantile(latency, 0.99));
    put_number(json, "max_us", latency->max_us);
    lw__json_close(json);
}

static void put_settings(struct lw__json_writer *json, const struct lw__bench_values *values) {
    lw__json_key(json, "url");
    lw__json_put_text(json, values->common.url);
    lw__json_key(json, "mode");
    lw__json_put_text(json, values->mode == 0 ? "life" : "submit");
    put_number(json, "connections", (uint64_t)values->connections);
    put_number(json, "in_flight", (uint64_t)values->in_flight);
    put_number(json, "batch", (uint64_t)values->batch);
    put_number(json, "size", (uint64_t)values->size);
}

static void print_json(const struct lw__bench *bench) {
    double seconds = lw__load_seconds(&bench->figures);
    struct row rows[ROWS];
    struct lw__buffer page;
    struct lw__json_writer json;
    list_rows(&bench->figures, rows);
    lw__page_begin(&page);
    lw__json_write(&json, &page);
    lw__json_object(&json);
    put_settings(&json, bench->values);
    put_number(&json, "tasks", bench->figures.tasks);
    lw__json_key(&json, "seconds");
    lw__json_put_double(&json, seconds);
    lw__json_key(&json, "tasks_per_second");
    lw__json_put_double(&json, rate_of(&bench->figures, seconds));
    lw__json_key(&json, "generator_cpu");
    lw__json_put_double(&json, bench->busy);
    lw__json_key(&json, "interrupted");
    lw__json_put_bool(&json, bench->was_stopped);
    lw__json_key(&json, "latency");
    lw__json_object(&json);
    for (size_t i = 0; i < ROWS; i++)
        put_latency(&json, &rows[i]);
    lw__json_close(&json);
    lw__json_close(&json);
    lw__buffer_put_byte(&page, '\n');
    lw__page_print(&page, stdout);
}

void lw__bench_report(const struct lw__bench *bench) {
    if (bench->values->common.is_json)
        print_json(bench);
    else
        print_report(bench);
}
