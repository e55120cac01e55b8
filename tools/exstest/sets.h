/* SPDX-License-Identifier: BSD-2-Clause */
/* sets.h - what a limit test starts with: a queue, a listener, a connection of this process to itself, and memory. */
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
    exs_acceptaddr_t element; /* of an accept; in use while one is pending after a failed connect */
    int accepting;
    uint32_t receives; /* receives that were started on ends.client */
};

/* Makes a set that listens at this address, on any port. -1 and errno; everything was released. */
int set_make(struct set *set, const struct sockaddr_storage *address, socklen_t length);
/* -1: a part of it can't be released; an error was printed. */
int set_free(struct set *set);
/* Makes one more connection, with its client's end on this queue. -1 and errno. */
int set_connect(struct set *set, exs_qhandle_t queue, struct ends *ends);
int set_disconnect(struct ends *ends);

#endif
