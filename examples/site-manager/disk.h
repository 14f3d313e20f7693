/* What a site has on the disk: a folder with its pages, and a database of its own.
 *
 *     ROOT/pages/example.org/index.html …
 *     ROOT/databases/example.org.db
 *
 * Every function may be cut off anywhere by a kill, and called again: then it does the rest. What
 * has returned LW_OK survives a power cut. Otherwise: LW_ESYSTEM with a sentence.
 *
 * Domains come from here on checked: no slash, no leading dot (service.c).
 */
#ifndef SITE_MANAGER_DISK_H
#define SITE_MANAGER_DISK_H

#include <legwork/status.h>

struct disk {
    char root[1024];
};

/* A page of a new site; %s in the format is the title. */
struct page {
    const char *name, *format;
};

extern const struct page disk_pages[];
extern const size_t disk_page_count;

int disk_open(struct disk *disk, const char *root, lw_error *err);

int disk_make_folder(const struct disk *disk, const char *domain, lw_error *err);
int disk_write_page(const struct disk *disk, const char *domain, const struct page *page,
                    const char *title, lw_error *err);
int disk_remove_folder(const struct disk *disk, const char *domain, lw_error *err);

/* LW_EXISTS: it was there already. */
int disk_make_database(const struct disk *disk, const char *domain, lw_error *err);

/* Its tables and the first post, in one transaction. */
int disk_fill_database(const struct disk *disk, const char *domain, const char *title,
                       lw_error *err);
int disk_remove_database(const struct disk *disk, const char *domain, lw_error *err);

#endif
