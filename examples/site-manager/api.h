/* The HTTP face of the service.
 *
 *     POST   /sites         domain=…&title=…   202 with Location; 400, 409, 413, 503 + Retry-After
 *     GET    /sites         ?after=NUMBER      200: a page of the list
 *     GET    /sites/{id}                       200: how it is; 404
 *     DELETE /sites/{id}                       202; 404; 503 + Retry-After
 *
 * The id of a site is its domain. Answers are JSON.
 */
#ifndef SITE_MANAGER_API_H
#define SITE_MANAGER_API_H

#include "service.h"

struct api;

/* Serves on 127.0.0.1; port 0: any, and api_port tells which. NULL: it cannot, and errno may say
 * why. The service has to outlive it. */
struct api *api_open(struct service *service, uint16_t port);
uint16_t api_port(const struct api *api);

/* Waits for the answers that are under way. */
void api_close(struct api *api);

#endif
