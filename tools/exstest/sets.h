/* SPDX-License-Identifier: BSD-2-Clause */
/* sets.h - what a limit test begins with: a queue, a listener, a connection of this process to itself, memory.
 */
#ifndef EXSTEST_SETS_H
#define EXSTEST_SETS_H

#include <exs.h>
#include <netinet/in.h>

enum { SET_MEMORY = 4096 }; /* bytes */

struct ends {
    int client, server;
};

struct set { /* owned by the limit test */
    exs_qhandle_t queue;
    struct sockaddr_storage address; /* of the listener */
    socklen_t length;
    int listener; /* -1: none */
    struct ends ends;
    char *memory;
    exs_mhandle_t region;
    exs_acceptaddr_t element; /* of an accept; stays for one that waits when a connect has failed */
    int accepting;
    uint32_t receives; /* started on ends.client */
};

/* A whole set, listening at this address on any port. -1 and errno; what was made is given back. */
int set_make(struct set *set, const struct sockaddr_storage *address, socklen_t length);
/* -1: something of it can't be given back, which was complained about. */
int set_free(struct set *set);
/* One more connection, its client's end on this queue. -1 and errno. */
int set_connect(struct set *set, exs_qhandle_t queue, struct ends *ends);
int set_disconnect(struct ends *ends);

#endif
