/* Where in an expression a mistake is. */
#include "cli/cron.h"
#include "cli/render.h"

#include <stdlib.h>

#define MARGIN "  "

/* The place that a sentence about an expression names, from 1; 0: none. Sentences with a place
 * begin with the name of a field, and others with what was given, which may have any words. */
static size_t place_in(const char *sentence) {
    static const char mark[] = ", position ";
    const char *at = sentence[0] == '"' ? NULL : strstr(sentence, mark);
    return at ? strtoul(at + sizeof mark - 1, NULL, 10) : 0;
}

void lw__cron_put_caret(struct lw__buffer *out, const char *expression, const char *sentence) {
    size_t place = place_in(sentence), begin = out->size;
    if (place == 0 || place > strlen(expression) + 1)
        return;
    lw__buffer_put_text(out, MARGIN);
    lw__put_safe(out, (struct lw__slice){expression, place - 1});
    if (out->status < 0)
        return;
    size_t width = lw__width_of((struct lw__slice){out->data + begin, out->size - begin});
    lw__put_safe(out, lw__slice_of(expression + place - 1));
    lw__buffer_print(out, "\n%*s^\n", (int)width, "");
}
