/* Fuzzes the configuration: the file, or the same bytes as flags and as an environment, one a line.
 * Whatever comes in, every value stays within what its row says. */
#include "server/serve_config.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WORDS_MAX 32

static void *resize(void *user, void *ptr, size_t old_size, size_t new_size) {
    (void)user, (void)old_size;
    if (new_size > 0)
        return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

static const lw_allocator allocator = {.resize = resize};

static void check_row(const struct lw__config_row *row, const void *value) {
    const struct lw__config_list *list = value;
    switch (row->type) {
    case LW__CONFIG_TEXT: assert(strlen(*(const char *const *)value) <= LW__CONFIG_TEXT_MAX); break;
    case LW__CONFIG_CHOICE: assert(*(const int *)value >= 0 && *(const int *)value < 4); break;
    case LW__CONFIG_SWITCH: break;
    case LW__CONFIG_LIST:
        assert(list->count <= LW__CONFIG_LIST_MAX);
        for (size_t i = 0; i < list->count; i++)
            assert(strlen(list->items[i]) <= LW__CONFIG_TEXT_MAX);
        break;
    default: assert(*(const int64_t *)value >= row->min && *(const int64_t *)value <= row->max);
    }
}

/* The lines of a text as strings, NULL after them. */
static int split(char *text, const char **words) {
    int count = 0;
    while (*text && count < WORDS_MAX - 1) {
        char *stop = text + strcspn(text, "\n");
        words[count++] = text;
        text = stop + (*stop == '\n');
        *stop = 0;
    }
    words[count] = NULL;
    return count;
}

static void check_status(int status, const lw_error *err) {
    assert(status == LW_OK || (status == LW_EINVAL && err->message[0] != 0));
}

static void read_words(struct lw__config *config, struct lw__slice text) {
    const char *words[WORDS_MAX];
    char *copy = malloc(text.size + 1);
    int rest;
    bool wants_help;
    lw_error err = {0};
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    int count = split(copy, words);
    check_status(lw__config_flags(config, count, words, &rest, &wants_help, &err), &err);
    check_status(lw__config_environment(config, words, NULL, NULL, &err), &err);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct lw__serve_config settings;
    static char page[64 << 10];
    struct lw__slice text = {(const char *)data, size};
    struct lw__config config;
    struct lw__buffer out;
    lw_error err = {0};
    assert(lw__config_init(&config, &lw__serve_table, &settings, &allocator) == LW_OK);
    if (size > 0 && data[0] == '-')
        read_words(&config, text);
    else
        check_status(lw__config_text(&config, "fuzz", text, &err), &err);
    for (size_t i = 0; i < lw__serve_table.count; i++)
        check_row(&lw__serve_table.rows[i],
                  (const char *)&settings + lw__serve_table.rows[i].offset);
    lw__buffer_init_fixed(&out, page, sizeof page);
    lw__config_write_values(&config, &out);
    lw__config_clear(&config);
    return 0;
}
