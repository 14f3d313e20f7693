/* The words for what keeps the store from being written: the code's, those of docs/openapi.json and
 * those of the table in docs/http-api.md are the same. */
#include "test.h"

#include "server/json.h"
#include "store/sqlite/file.h"

#include <stdio.h>
#include <string.h>

#define WORDS_MAX 32
#define NATIVE_MAX 255 /* what the code looks at of a native error */

static const char *words[WORDS_MAX];
static size_t word_count;
static struct lw__json_key keys[4096];
static char text[256 << 10];

static void note_word(const lw_error *trouble) {
    const char *word = lw__sqlite_trouble_word(trouble);
    size_t i = 0;
    while (i < word_count && strcmp(words[i], word) != 0)
        i++;
    CHECK(i < WORDS_MAX);
    words[i] = word;
    word_count += i == word_count;
}

/* All that the code can say, of whatever trouble. */
static void collect_words(void) {
    static const int statuses[] = {LW_EBUSY, LW_ECORRUPT, LW_ENOMEM, LW_ESYSTEM};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        for (int native = 0; native <= NATIVE_MAX; native++)
            note_word(&(lw_error){.status = statuses[i], .native = native});
    CHECK(word_count > 5);
}

static size_t read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    return size;
}

static struct lw__json read_enum(void) {
    static const char *const path[] = {"components", "schemas", "Error",
                                       "properties", "code",    "enum"};
    static const struct lw__json_limits limits = {64, keys, 4096};
    struct lw__json_error wrong = {.sentence = ""};
    struct lw__json here;
    size_t size = read_text(DOCS "/openapi.json");
    CHECK(lw__json_read((struct lw__slice){text, size}, &limits, &here, &wrong) >= 0);
    for (size_t i = 0; i < sizeof path / sizeof *path; i++)
        CHECK(lw__json_find(here, path[i], &here));
    return here;
}

static size_t count_in(struct lw__json array, const char *word) {
    struct lw__json_walk walk = lw__json_enter(array);
    struct lw__json key, part;
    size_t count = 0;
    while (lw__json_next(&walk, &key, &part))
        count += !word || lw__json_is(part, word);
    return count;
}

TEST(the_document_has_every_code_that_the_store_can_say_and_no_other) {
    collect_words();
    struct lw__json listed = read_enum();
    for (size_t i = 0; i < word_count; i++) {
        fprintf(stderr, "%s\n", words[i]);
        assert_int_equal(count_in(listed, words[i]), 1);
    }
    assert_int_equal(count_in(listed, NULL), word_count);
}

TEST(the_table_of_codes_has_them_too) {
    char row[64];
    collect_words();
    read_text(DOCS "/http-api.md");
    for (size_t i = 0; i < word_count; i++) {
        snprintf(row, sizeof row, "\n| `%s` | ", words[i]);
        fprintf(stderr, "%s\n", words[i]);
        CHECK(strstr(text, row) != NULL);
    }
}
