/* The terminal and the clock. */
#include "cli/screen.h"

#include "server/memory.h"

#include <event2/util.h>

int64_t lw__now_ms(void) {
    struct timeval now;
    evutil_gettimeofday(&now, NULL);
    return (int64_t)now.tv_sec * 1000 + now.tv_usec / 1000;
}

void lw__page_begin(struct lw__buffer *page) {
    lw__buffer_init(page, &lw__server_memory, LW__SCREEN_MAX);
}

void lw__page_print(struct lw__buffer *page, FILE *file) {
    if (page->size > 0)
        fwrite(page->data, 1, page->size, file);
    if (page->status < 0)
        fprintf(stderr, "legwork: not all could be shown: %s\n", lw_status_text(page->status));
    fflush(file);
    lw__buffer_clear(page);
}

void lw__print_bytes(struct lw__slice bytes, const struct lw__style *style) {
    struct lw__buffer page;
    lw__page_begin(&page);
    if (style->is_terminal)
        lw__put_lines(&page, "", bytes);
    else
        lw__buffer_put(&page, bytes);
    lw__page_print(&page, stdout);
}

/* ---- spinner ------------------------------------------------------------------------------- */

void lw__spinner_begin(struct lw__spinner *spinner) {
    *spinner = (struct lw__spinner){.style = lw__style_of(stderr), .since_ms = lw__now_ms()};
}

void lw__spinner_turn(void *user) {
    static const char *const symbols[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    static const char *const letters[] = {"|", "/", "-", "\\"};
    struct lw__spinner *spinner = user;
    struct lw__buffer page;
    if (!spinner->style.is_terminal)
        return;
    unsigned turn = spinner->turns++;
    lw__page_begin(&page);
    lw__buffer_put_text(&page, "\r\x1b[K");
    lw__put_toned(&page, &spinner->style, LW__CYAN,
                  spinner->style.has_symbols ? symbols[turn % 10] : letters[turn % 4]);
    lw__buffer_print(&page, " %s  %s", spinner->what,
                     lw__span_of(lw__now_ms() - spinner->since_ms).text);
    lw__page_print(&page, stderr);
    spinner->is_shown = true;
}

void lw__spinner_end(struct lw__spinner *spinner) {
    if (spinner->is_shown)
        fputs("\r\x1b[K", stderr);
    spinner->is_shown = false;
}
