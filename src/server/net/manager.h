/* The service manager, by its two protocols: sockets that it hands over (LISTEN_FDS), and what it
 * wants to be told (NOTIFY_SOCKET). No library is needed for either. */
#ifndef LW_SERVER_NET_MANAGER_H
#define LW_SERVER_NET_MANAGER_H

#define LW__MANAGER_FIRST_FD 3

/* How many descriptors were handed to this process, from LW__MANAGER_FIRST_FD on. Children do not
 * see them any more. */
int lw__manager_take_fds(void);

/* Tells the manager, if there is one: "READY=1". */
void lw__manager_tell(const char *state);

/* That the settings are being read again: READY=1 has to follow. */
void lw__manager_tell_reloading(void);

#endif
