/* The name that was probably meant: the folder's files, listed only when somebody has asked for one
 * that is not there. */
#include "calendar/zone.h"

#include "base/memory.h"
#include "base/names.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 3 /* America/Argentina/Ushuaia */

struct listing {
    const char *folder;
    size_t count;
    const char *known[LW__ZONE_LISTED_MAX];
    char names[LW__ZONE_LISTED_MAX][LW_ZONE_NAME_MAX + 1];
};

static void list_folder(struct listing *listing, const char *prefix, int depth);

/* Names of zones begin with a capital letter and have no dots; what else is in the folder (tables,
 * "posix" and "right", which hold all zones again) does not look so. */
static bool is_zone_like(const char *name) {
    return name[0] >= 'A' && name[0] <= 'Z' && !strchr(name, '.');
}

static void list_entry(struct listing *listing, const char *prefix, const char *entry, int depth) {
    char name[LW_ZONE_NAME_MAX + 1], path[LW__ZONE_FOLDER_MAX + 1 + LW_ZONE_NAME_MAX + 1];
    struct stat info;
    if (!is_zone_like(entry)
        || snprintf(name, sizeof name, "%s%s", prefix, entry) >= (int)sizeof name)
        return;
    snprintf(path, sizeof path, "%s/%s", listing->folder, name);
    if (stat(path, &info) < 0)
        return;
    if (S_ISREG(info.st_mode)) {
        memcpy(listing->names[listing->count++], name, sizeof name);
    } else if (S_ISDIR(info.st_mode) && depth < DEPTH_MAX && strlen(name) + 1 < sizeof name) {
        memcpy(name + strlen(name), "/", 2);
        list_folder(listing, name, depth + 1);
    }
}

static void list_folder(struct listing *listing, const char *prefix, int depth) {
    char path[LW__ZONE_FOLDER_MAX + 1 + LW_ZONE_NAME_MAX + 1];
    snprintf(path, sizeof path, "%s/%s", listing->folder, prefix);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (const struct dirent *entry;
         listing->count < LW__ZONE_LISTED_MAX && (entry = readdir(folder));)
        list_entry(listing, prefix, entry->d_name, depth);
    closedir(folder);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

static const char *tail_of(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static const char *find_nearest(struct listing *listing, const char *wanted) {
    if (!strchr(wanted, '/')) { /* "Berlin", "berlin" */
        for (size_t i = 0; i < listing->count; i++)
            listing->known[i] = tail_of(listing->names[i]);
        const char *tail = lw__name_nearest(wanted, listing->known, listing->count);
        for (size_t i = 0; tail && i < listing->count; i++)
            if (listing->known[i] == tail)
                return listing->names[i];
    }
    for (size_t i = 0; i < listing->count; i++)
        listing->known[i] = listing->names[i];
    return lw__name_nearest(wanted, listing->known, listing->count);
}

bool lw__zone_nearest(const lw_zones *zones, const char *wanted,
                      char nearest[LW_ZONE_NAME_MAX + 1]) {
    struct listing *listing = lw__alloc_zero(zones->allocator, sizeof *listing);
    if (!listing)
        return false;
    listing->folder = zones->folder;
    list_folder(listing, "", 1);
    /* folders have no order of their own */
    qsort(listing->names, listing->count, sizeof *listing->names, compare_names);
    const char *found = find_nearest(listing, wanted);
    if (found)
        snprintf(nearest, LW_ZONE_NAME_MAX + 1, "%s", found);
    lw__free(zones->allocator, listing, sizeof *listing);
    return found != NULL;
}
