/* SPDX-License-Identifier: BSD-2-Clause */
/* session.h - the sessions of a server. A session is the set of all connections of one test of a client. */
#ifndef EXSTEST_SESSION_H
#define EXSTEST_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct session { /* owned by the server; freed with its last connection */
    LIST_ENTRY(session) link;
    uint64_t id;
    char test;
    uint32_t total, joined, ended, failed;
    uint64_t mismatches;
    char client[64];
};

LIST_HEAD(sessions, session);

/* Finds the session of a connection, or creates it for the first connection. Returns NULL if memory allocation
 * failed. */
struct session *session_join(struct sessions *sessions, uint64_t id, char test, uint32_t total,
                             const char *client);
/* Removes a connection that has ended. After the last one prints the result and frees the session. */
void session_leave(struct session *session, bool failed, uint64_t mismatches);

#endif
