/* A text that grows, up to a limit, and JSON in it. Running out of memory or room is remembered,
 * so that it is looked at once, at the end. */
#ifndef SITE_MANAGER_TEXT_H
#define SITE_MANAGER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define TEXT_MAX (4 << 20)

struct text {
    char *bytes; /* ends with a zero; NULL: nothing yet. free() it */
    size_t size, capacity;
    bool is_broken; /* something is missing */
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a JSON string, with its quotes. */
void text_add_json(struct text *text, const char *value);

#endif
