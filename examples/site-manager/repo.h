/* The service's own table, in the file that the engine owns: a row a site.
 *
 * Rows are written inside steps only, in one transaction with the completion of the step: either
 * both are there or neither, whatever crashes.
 *
 * Threads: any; one connection, a transaction at a time.
 */
#ifndef SITE_MANAGER_REPO_H
#define SITE_MANAGER_REPO_H

#include <legwork/task.h>

struct repo;

/* After the engine has opened the file. LW_OK; LW_ENOMEM, LW_ESYSTEM with a sentence. */
int repo_open(struct repo **repo, const char *path, lw_error *err);
void repo_close(struct repo *repo);

/* Inside a step of the flow: writes or removes the row, and completes the step. LW_OK: return
 * lw_done. LW_ELEASE: this attempt is not wanted any more; LW_ESYSTEM; and nothing was done. */
int repo_save_site(struct repo *repo, lw_ctx *step, const char *domain, const char *title,
                   lw_error *err);
int repo_remove_site(struct repo *repo, lw_ctx *step, const char *domain, lw_error *err);

#endif
