/* SPDX-License-Identifier: BSD-2-Clause */
/* sets.h - the objects that each attempt of the limit test needs: a queue, a listener, a connection of this process to
 * itself, and a registered buffer. */
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
    exs_acceptaddr_t element; /* of the accept; stays in use if the connect failed and the accept is pending */
    int accepting;
    uint32_t receives; /* receives posted on ends.client */
};

/* Creates a set that listens at this address, on any port. Returns 0, or -1 and errno after releasing everything. */
int set_make(struct set *set, const struct sockaddr_storage *address, socklen_t length);
/* Frees a set. Returns 0, or -1 after printing an error if a part of it cannot be released. */
int set_free(struct set *set);
/* Establishes another connection, with its client's end on this queue. Returns 0, or -1 and errno. */
int set_connect(struct set *set, exs_qhandle_t queue, struct ends *ends);
int set_disconnect(struct ends *ends);

#endif
