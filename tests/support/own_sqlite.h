/* own_sqlite.h: the connection of a program of its own, beside the store's. Everything here asserts
 * that it works, and says which SQL did not. */
#ifndef LW_TESTS_SUPPORT_OWN_SQLITE_H
#define LW_TESTS_SUPPORT_OWN_SQLITE_H

#include <sqlite3.h>

/* One that waits while another connection has the lock. */
sqlite3 *connect_db(const char *path);
void run_sql(sqlite3 *db, const char *sql);

/* The first value of the first row. */
long long ask(sqlite3 *db, const char *sql);

#endif
