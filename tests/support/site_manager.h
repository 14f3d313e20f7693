/* The program examples/site-manager as a process of its own: started, asked over HTTP, killed; and
 * a look at what it has left on the disk, past all that it says of itself.
 *
 * Its folder is "data" in the working directory.
 */
#ifndef LW_TESTS_SUPPORT_SITE_MANAGER_H
#define LW_TESTS_SUPPORT_SITE_MANAGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct site_manager {
    pid_t pid; /* 0: none */
    int pidfd;
    uint16_t port;
};

/* Starts it with these options besides (NULL at the end). False: it died before it could serve. */
bool site_manager_start(struct site_manager *manager, const char *program,
                        const char *const *options);

/* Waits until it dies, at most so long. */
bool site_manager_dies_within(const struct site_manager *manager, int64_t us);

/* Ends it: by SIGKILL, whether it lives or not; or by SIGTERM, and returns its exit status. */
void site_manager_kill(struct site_manager *manager);
int site_manager_stop(struct site_manager *manager);

struct http_reply {
    int status;        /* 0: there was no answer */
    char text[262144]; /* head and body */
    const char *body;  /* in it */
};

/* A body makes it a form. Returns the status. */
int http_ask(uint16_t port, const char *method, const char *path, const char *body,
             struct http_reply *reply);

/* Whether a site is wholly there, or wholly gone; otherwise `why` is a sentence. */
bool site_is_there(const char *domain, const char *title, char why[200]);
bool site_is_gone(const char *domain, char why[200]);

/* Whether there is nothing of any site. */
bool sites_are_gone(char why[200]);

#endif
