/* SPDX-License-Identifier: BSD-2-Clause */
/* session.c - the sessions of a server; see session.h. */
#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "say.h"

struct session *session_join(struct sessions *sessions, uint64_t id, char test, uint32_t total,
                             const char *client)
{
    struct session *session;

    LIST_FOREACH (session, sessions, link) {
        if (session->id == id && session->test == test && session->total == total &&
            session->joined < session->total) {
            session->joined++;
            return session;
        }
    }
    session = calloc(1, sizeof(*session));
    if (session == NULL)
        return NULL;
    session->id = id;
    session->test = test;
    session->total = total;
    session->joined = 1;
    snprintf(session->client, sizeof(session->client), "%s", client);
    LIST_INSERT_HEAD(sessions, session, link);
    return session;
}

static const char *name_of(char test)
{
    return test == 'T' ? "Transaction Test" : "Performance Test";
}

void session_leave(struct session *session, bool failed, uint64_t mismatches)
{
    session->ended++;
    session->failed += failed;
    session->mismatches += mismatches;
    if (session->ended < session->joined)
        return;
    if (session->failed > 0 || session->joined < session->total)
        say("Server: %s of %s failed: %u of %u connections came to a good end", name_of(session->test),
            session->client, session->joined - session->failed, session->total);
    else if (session->mismatches > 0)
        say("Server: %s Finished for this client, %s: %" PRIu64 " MISMATCHES", name_of(session->test),
            session->client, session->mismatches);
    else
        say("Server: %s Finished for this client, %s", name_of(session->test), session->client);
    LIST_REMOVE(session, link);
    free(session);
}
