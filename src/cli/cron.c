/* `legwork cron`: its verbs, and what they share. */
#include "cli/cron.h"

#include "cli/command.h"
#include "cli/screen.h"

const struct lw__command lw__cron_verbs[] = {
    {"next", lw__command_cron_next, "say when an expression is due, and what it means", NULL},
    {0},
};

void lw__cron_complain(const char *expression, const char *sentence) {
    struct lw__buffer page;
    lw__page_begin(&page);
    lw__buffer_print(&page, "legwork: %s\n", sentence);
    if (lw__style_of(stderr).is_terminal)
        lw__cron_put_caret(&page, expression, sentence);
    lw__page_print(&page, stderr);
}
