/* SPDX-License-Identifier: BSD-2-Clause */
/* session.h - a server's tests: the connections of one client that belong together. */
#ifndef EXSTEST_SESSION_H
#define EXSTEST_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct session { /* owned by the server; ends with its last connection */
    LIST_ENTRY(session) link;
    uint64_t id;
    char test;
    uint32_t total, joined, ended, failed;
    uint64_t mismatches;
    char client[64];
};

LIST_HEAD(sessions, session);

/* The session that a connection belongs to, made if it is the first of it. NULL: no memory. */
struct session *session_join(struct sessions *sessions, uint64_t id, char test, uint32_t total,
                             const char *client);
/* A connection has come to its end; after the last one the result is said, and the session is gone. */
void session_leave(struct session *session, bool failed, uint64_t mismatches);

#endif
