/* Finding a subcommand, or a verb of one, by its name. */
#include "cli/command.h"

#include "cli/arguments.h"
#include "cli/pages.h"
#include "server/nearest.h"

#include <stdio.h>
#include <string.h>

static const struct lw__command *find(const struct lw__command *table, const char *name,
                                      size_t size) {
    for (; table->name; table++)
        if (strncmp(table->name, name, size) == 0 && table->name[size] == '\0')
            return table;
    return NULL;
}

const struct lw__command *lw__command_of(const char *line, size_t *size) {
    *size = strcspn(line, " ");
    const struct lw__command *command = find(lw__commands, line, *size);
    if (!command)
        *size = 0;
    if (!command || !command->verbs || line[*size] == '\0')
        return command;
    const char *verb = line + *size + 1;
    size_t more = strcspn(verb, " ");
    command = find(command->verbs, verb, more);
    *size += command ? 1 + more : 0;
    return command;
}

int lw__command_refuse(const struct lw__command *owner, const char *name) {
    struct lw__nearest nearest;
    lw__nearest_init(&nearest, lw__slice_of(name));
    for (const struct lw__command *one = owner ? owner->verbs : lw__commands; one->name; one++)
        lw__nearest_offer(&nearest, one->name);
    fprintf(stderr, "legwork: there is no command %s%s%s; ", owner ? owner->name : "",
            owner ? " " : "", lw__slice_show(lw__slice_of(name)).text);
    if (nearest.name)
        fprintf(stderr, "did you mean %s%s%s?\n", owner ? owner->name : "", owner ? " " : "",
                nearest.name);
    else
        fprintf(stderr, "see legwork help%s%s\n", owner ? " " : "", owner ? owner->name : "");
    return LW__EXIT_USAGE;
}

/* `legwork cron`, and what `legwork help` asks of it. */
static int run_alone(const struct lw__command *owner, const char *flag) {
    if (flag && strcmp(flag, LW__ROFF_FLAG) == 0)
        return lw__page_print_verbs(owner);
    lw__help_print_verbs(owner);
    return flag ? LW__EXIT_OK : LW__EXIT_USAGE;
}

int lw__command_run(const struct lw__command *owner, int argc, const char *const *argv) {
    const char *name = argc > 0 ? argv[0] : NULL;
    if (owner && (!name || name[0] == '-'))
        return run_alone(owner, name);
    const struct lw__command *one = find(owner ? owner->verbs : lw__commands, name, strlen(name));
    if (!one)
        return lw__command_refuse(owner, name);
    return one->run ? one->run(argc - 1, argv + 1) : lw__command_run(one, argc - 1, argv + 1);
}
