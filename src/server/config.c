/* Rows, values, flags, environment. */
#include "server/config_internal.h"

#include "server/nearest.h"
#include "server/refuse.h"

#include <assert.h>
#include <stdio.h>

#define PREFIX "LEGWORK_"

const struct lw__config_row *lw__config_find(const struct lw__config_table *table,
                                             struct lw__slice name) {
    for (size_t i = 0; i < table->count; i++)
        if (lw__slice_is(name, table->rows[i].name))
            return &table->rows[i];
    return NULL;
}

struct lw__config_variable lw__config_variable_of(const struct lw__config_row *row) {
    struct lw__config_variable variable = {PREFIX};
    size_t at = sizeof PREFIX - 1;
    for (const char *c = row->name; *c; c++)
        variable.name[at++] = *c == '-'                ? '_'
                              : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A')
                                                       : *c;
    return variable;
}

/* ---- texts ---------------------------------------------------------------------------------- */

struct lw__config_block {
    struct lw__config_block *next;
    size_t size; /* of the whole block */
    char text[];
};

/* Keeps a copy until the config is cleared; NULL without memory. */
static const char *keep(struct lw__config *config, struct lw__slice text) {
    const lw_allocator *allocator = config->allocator;
    size_t size = sizeof(struct lw__config_block) + text.size + 1;
    struct lw__config_block *block = allocator->resize(allocator->user, NULL, 0, size);
    if (!block)
        return NULL;
    block->next = config->blocks;
    block->size = size;
    if (text.size > 0)
        memcpy(block->text, text.data, text.size);
    block->text[text.size] = 0;
    config->blocks = block;
    return block->text;
}

void lw__config_clear(struct lw__config *config) {
    while (config->blocks) {
        struct lw__config_block *block = config->blocks;
        config->blocks = block->next;
        config->allocator->resize(config->allocator->user, block, block->size, 0);
    }
}

/* ---- values --------------------------------------------------------------------------------- */

/* A value that was understood, before it is kept. */
struct value {
    int64_t number;
    struct lw__slice text;
};

static int read_text(struct lw__slice text, lw_error *err) {
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return lw__refuse(err, LW_EINVAL, "\"%s\" has the control byte 0x%02x",
                              lw__slice_show(text).text, byte);
    }
    return LW_OK;
}

static int read_count(struct lw__slice text, int64_t *number, lw_error *err) {
    bool is_fine = text.size > 0 && text.size <= 15;
    *number = 0;
    for (size_t i = 0; i < text.size && is_fine; i++) {
        is_fine = text.data[i] >= '0' && text.data[i] <= '9';
        *number = *number * 10 + (text.data[i] - '0');
    }
    if (is_fine)
        return LW_OK;
    return lw__refuse(err, LW_EINVAL, "\"%s\" is no whole number", lw__slice_show(text).text);
}

static int read_switch(struct lw__slice text, int64_t *number, lw_error *err) {
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (lw__slice_is(text, words[i])) {
            *number = i % 2;
            return LW_OK;
        }
    return lw__refuse(err, LW_EINVAL, "\"%s\" is neither yes nor no", lw__slice_show(text).text);
}

static int read_choice(const struct lw__config_row *row, struct lw__slice text, int64_t *number,
                       lw_error *err) {
    char known[128] = "";
    size_t at = 0;
    for (size_t i = 0; row->choices[i]; i++) {
        if (lw__slice_is(text, row->choices[i])) {
            *number = (int64_t)i;
            return LW_OK;
        }
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i > 0 ? ", " : "",
                               row->choices[i]);
        assert(at < sizeof known);
    }
    return lw__refuse(err, LW_EINVAL, "\"%s\" is none of %s", lw__slice_show(text).text, known);
}

struct lw__units_text lw__config_number(const struct lw__config_row *row, int64_t number) {
    struct lw__units_text plain;
    if (row->type == LW__CONFIG_DURATION)
        return lw__duration_write(number);
    if (row->type == LW__CONFIG_SIZE)
        return lw__size_write(number);
    snprintf(plain.text, sizeof plain.text, "%lld", (long long)number);
    return plain;
}

static int check_range(const struct lw__config_row *row, const struct value *value, lw_error *err) {
    if (value->number >= row->min && value->number <= row->max)
        return LW_OK;
    return lw__refuse(err, LW_EINVAL, "\"%s\" is not from %s to %s",
                      lw__slice_show(value->text).text, lw__config_number(row, row->min).text,
                      lw__config_number(row, row->max).text);
}

static int read_value(const struct lw__config_row *row, struct value *value, lw_error *err) {
    int status = LW_OK;
    if (value->text.size > LW__CONFIG_TEXT_MAX)
        return lw__refuse(err, LW_EINVAL, "it has %zu bytes, at most %d are accepted",
                          value->text.size, LW__CONFIG_TEXT_MAX);
    switch (row->type) {
    case LW__CONFIG_TEXT:
    case LW__CONFIG_LIST: return read_text(value->text, err);
    case LW__CONFIG_SWITCH: return read_switch(value->text, &value->number, err);
    case LW__CONFIG_CHOICE: return read_choice(row, value->text, &value->number, err);
    case LW__CONFIG_COUNT: status = read_count(value->text, &value->number, err); break;
    case LW__CONFIG_DURATION: status = lw__duration_read(value->text, &value->number, err); break;
    case LW__CONFIG_SIZE: status = lw__size_read(value->text, &value->number, err); break;
    }
    return status < 0 ? status : check_range(row, value, err);
}

/* A list of a better place replaces the others. */
static int store_item(struct lw__config_list *list, const char *item, bool is_better,
                      lw_error *err) {
    if (is_better)
        list->count = 0;
    if (list->count == LW__CONFIG_LIST_MAX)
        return lw__refuse(err, LW_EINVAL, "it is there more than %d times", LW__CONFIG_LIST_MAX);
    list->items[list->count++] = item;
    return LW_OK;
}

static int store(struct lw__config *config, const struct lw__config_row *row,
                 const struct value *value, bool is_better, lw_error *err) {
    char *into = (char *)config->values + row->offset;
    const char *text = NULL;
    bool is_text = row->type == LW__CONFIG_TEXT || row->type == LW__CONFIG_LIST;
    if (is_text && !(text = keep(config, value->text)))
        return lw__refuse(err, LW_ENOMEM, "there is no memory for it");
    switch (row->type) {
    case LW__CONFIG_TEXT: *(const char **)(void *)into = text; break;
    case LW__CONFIG_LIST: return store_item((void *)into, text, is_better, err);
    case LW__CONFIG_SWITCH: *(bool *)into = value->number != 0; break;
    case LW__CONFIG_CHOICE: *(int *)(void *)into = (int)value->number; break;
    default: *(int64_t *)(void *)into = value->number;
    }
    return LW_OK;
}

int lw__config_set(struct lw__config *config, const struct lw__config_row *row,
                   enum lw__config_source source, struct lw__slice text, const char *where,
                   lw_error *err) {
    unsigned char *present = &config->sources[row - config->table->rows];
    struct value value = {.text = text};
    lw_error reason = {0};
    int status = read_value(row, &value, &reason);
    if (status == LW_OK && source >= *present) {
        status = store(config, row, &value, source > *present, &reason);
        *present = (unsigned char)source;
    }
    return status < 0 ? lw__refuse(err, status, "%s: %s", where, reason.message) : LW_OK;
}

int lw__config_init(struct lw__config *config, const struct lw__config_table *table, void *values,
                    const lw_allocator *allocator) {
    assert(table->count <= LW__CONFIG_ROWS_MAX);
    *config = (struct lw__config){.table = table, .values = values, .allocator = allocator};
    for (size_t i = 0; i < table->count; i++) {
        const struct lw__config_row *row = &table->rows[i];
        assert(strlen(row->name) <= LW__CONFIG_NAME_MAX);
        if (row->type == LW__CONFIG_LIST) {
            ((struct lw__config_list *)(void *)((char *)values + row->offset))->count = 0;
            continue;
        }
        int status = lw__config_set(config, row, LW__CONFIG_DEFAULT, lw__slice_of(row->fallback),
                                    row->name, NULL);
        assert(status == LW_OK || status == LW_ENOMEM); /* a default is acceptable */
        if (status < 0) {
            lw__config_clear(config);
            return status;
        }
    }
    return LW_OK;
}

/* ---- flags ---------------------------------------------------------------------------------- */

static int refuse_flag(const struct lw__config_table *table, struct lw__slice name, lw_error *err) {
    struct lw__nearest nearest;
    lw__nearest_init(&nearest, name);
    for (size_t i = 0; i < table->count; i++)
        lw__nearest_offer(&nearest, table->rows[i].name);
    if (nearest.name)
        return lw__refuse(err, LW_EINVAL, "--%s is not known; did you mean --%s?",
                          lw__slice_show(name).text, nearest.name);
    return lw__refuse(err, LW_EINVAL, "--%s is not known; --help tells what is",
                      lw__slice_show(name).text);
}

/* The row that a flag is for. *is_off: it was --no-name, of a switch. */
static const struct lw__config_row *find_flag(const struct lw__config_table *table,
                                              struct lw__slice name, bool *is_off) {
    const struct lw__config_row *row = lw__config_find(table, name);
    *is_off = false;
    if (row || name.size < 3 || memcmp(name.data, "no-", 3) != 0)
        return row;
    row = lw__config_find(table, (struct lw__slice){name.data + 3, name.size - 3});
    *is_off = row && row->type == LW__CONFIG_SWITCH;
    return *is_off ? row : NULL;
}

/* One flag; *at is its index, and then that of the next. */
static int read_flag(struct lw__config *config, int argc, const char *const *argv, int *at,
                     lw_error *err) {
    const char *text = argv[(*at)++] + 2, *mark = strchr(text, '=');
    struct lw__slice name = mark ? lw__slice_between(text, mark) : lw__slice_of(text);
    char where[LW__CONFIG_NAME_MAX + 3];
    const char *value = mark ? mark + 1 : NULL;
    bool is_off;
    const struct lw__config_row *row = find_flag(config->table, name, &is_off);
    if (!row)
        return refuse_flag(config->table, name, err);
    if (is_off && mark)
        return lw__refuse(err, LW_EINVAL, "--no-%s takes no value", row->name);
    if (row->type == LW__CONFIG_SWITCH && !mark)
        value = is_off ? "no" : "yes";
    if (!value && *at < argc)
        value = argv[(*at)++];
    if (!value)
        return lw__refuse(err, LW_EINVAL, "--%s needs a value: --%s %s", row->name, row->name,
                          row->argument);
    snprintf(where, sizeof where, "--%s", row->name);
    return lw__config_set(config, row, LW__CONFIG_FLAG, lw__slice_of(value), where, err);
}

int lw__config_flags(struct lw__config *config, int argc, const char *const *argv, int *rest,
                     bool *wants_help, lw_error *err) {
    int at = 0;
    *wants_help = false;
    while (at < argc && argv[at][0] == '-' && argv[at][1] != 0) {
        const char *argument = argv[at];
        int status = LW_OK;
        if (strcmp(argument, "--") == 0) {
            at++;
            break;
        }
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            *wants_help = true;
            at++;
        } else if (argument[1] != '-') {
            status = lw__refuse(err, LW_EINVAL, "%s is not known; --help tells what is",
                                lw__slice_show(lw__slice_of(argument)).text);
        } else {
            status = read_flag(config, argc, argv, &at, err);
        }
        if (status < 0)
            return status;
    }
    *rest = at;
    return LW_OK;
}

/* ---- environment ---------------------------------------------------------------------------- */

static const struct lw__config_row *find_variable(const struct lw__config_table *table,
                                                  struct lw__slice name) {
    for (size_t i = 0; i < table->count; i++)
        if (lw__slice_is(name, lw__config_variable_of(&table->rows[i]).name))
            return &table->rows[i];
    return NULL;
}

static bool is_other(const struct lw__config *config, struct lw__slice name) {
    for (const char *const *other = config->others; other && *other; other++)
        if (lw__slice_is(name, *other))
            return true;
    return false;
}

static void warn_of(const struct lw__config_table *table, struct lw__slice name,
                    void (*warn)(void *user, const char *sentence), void *user) {
    struct lw__slice wanted = {name.data + sizeof PREFIX - 1, name.size - (sizeof PREFIX - 1)};
    struct lw__nearest nearest;
    lw_error sentence = {0};
    lw__nearest_init(&nearest, wanted);
    for (size_t i = 0; i < table->count; i++)
        lw__nearest_offer(&nearest, table->rows[i].name);
    const struct lw__config_row *row =
        nearest.name ? lw__config_find(table, lw__slice_of(nearest.name)) : NULL;
    if (row)
        lw__refuse(&sentence, LW_EINVAL, "%s is not known; did you mean %s?",
                   lw__slice_show(name).text, lw__config_variable_of(row).name);
    else
        lw__refuse(&sentence, LW_EINVAL, "%s is not known", lw__slice_show(name).text);
    if (warn)
        warn(user, sentence.message);
}

int lw__config_environment(struct lw__config *config, const char *const *environment,
                           void (*warn)(void *user, const char *sentence), void *user,
                           lw_error *err) {
    for (; *environment; environment++) {
        const char *mark = strchr(*environment, '=');
        if (strncmp(*environment, PREFIX, sizeof PREFIX - 1) != 0 || !mark || mark[1] == 0)
            continue;
        struct lw__slice name = lw__slice_between(*environment, mark);
        const struct lw__config_row *row = find_variable(config->table, name);
        if (!row) {
            if (!is_other(config, name))
                warn_of(config->table, name, warn, user);
            continue;
        }
        int status = lw__config_set(config, row, LW__CONFIG_ENVIRONMENT, lw__slice_of(mark + 1),
                                    lw__config_variable_of(row).name, err);
        if (status < 0)
            return status;
    }
    return LW_OK;
}

/* ---- comparing ------------------------------------------------------------------------------ */

static bool is_same(const struct lw__config_row *row, const void *a, const void *b) {
    const struct lw__config_list *list = a, *other = b;
    bool is_equal = true;
    switch (row->type) {
    case LW__CONFIG_TEXT: return strcmp(*(const char *const *)a, *(const char *const *)b) == 0;
    case LW__CONFIG_SWITCH: return *(const bool *)a == *(const bool *)b;
    case LW__CONFIG_CHOICE: return *(const int *)a == *(const int *)b;
    case LW__CONFIG_LIST:
        is_equal = list->count == other->count;
        for (size_t i = 0; is_equal && i < list->count; i++)
            is_equal = strcmp(list->items[i], other->items[i]) == 0;
        return is_equal;
    default: return *(const int64_t *)a == *(const int64_t *)b;
    }
}

const struct lw__config_row *lw__config_differs(const struct lw__config *a,
                                                const struct lw__config *b,
                                                const struct lw__config_row *after) {
    const struct lw__config_table *table = a->table;
    for (size_t i = after ? (size_t)(after - table->rows) + 1 : 0; i < table->count; i++) {
        const struct lw__config_row *row = &table->rows[i];
        if (row->needs_restart
            && !is_same(row, (const char *)a->values + row->offset,
                        (const char *)b->values + row->offset))
            return row;
    }
    return NULL;
}
