/* Around the example of legwork/outbox_sqlite.h. */
#include <legwork/outbox_sqlite.h>
#include <sqlite3.h>

void move_money(sqlite3 *bank, const char *from, const char *to, long cents);
void example(sqlite3 *bank, const char *from, const char *to, long cents, const char *transfer);

void example(sqlite3 *bank, const char *from, const char *to, long cents, const char *transfer) {
    lw_error err;
    /* EXAMPLE */
}
