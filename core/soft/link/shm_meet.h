/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_meet.h - how the two ends of a connection find that they may share memory, and come by it.
 *
 * A listener also listens on unix sockets that are named after its address and port (shm_door.h). Before a client sends
 * its request, it connects to one of them, makes the memory, and sends that and its eventfd there, with a random token
 * that its request contains, too. The listener, when it accepts the request, maps the memory that came with this token,
 * sends its own eventfd back, and says so in its answer. So each end has all that it needs before it agrees. An end that
 * lacks something does not agree: packets then go by UDP, and a struct shm_refusal says why.
 *
 * Both ask the kernel who is at the other end, and share with processes of their own user alone.
 */
#ifndef SOFT_SHM_MEET_H
#define SOFT_SHM_MEET_H

#include "shm.h"
#include "shm_door.h"

#define SHM_TOKEN 16    /* bytes */
#define SHM_GUESTS 4096 /* of a listener: clients that have come, and whose requests have not */

/* Why there is no link. */
struct shm_refusal {
    const char *what;
    int error; /* an errno; 0: there is none */
};

/* A client that has come to a listener's door. */
struct shm_guest {
    int fd;
    bool has_token; /* known: what it brought has arrived */
    uint8_t token[SHM_TOKEN];
};

/* A listener's. */
struct shm_meeting {
    struct shm_door doors[SHM_DOORS];
    struct shm_guest *guests; /* oldest first */
    unsigned count, room;
    unsigned checked; /* the first of those that are asked next whether they are still there */
};

/* ---- The side that listens ---- */

/* At this address; NULL: there, or here at all, nobody meets. */
struct shm_meeting *shm_meeting_open(const union soft_addr *local);
void shm_meeting_close(struct shm_meeting *meeting);
/* Let in who has come, and see out who has left. */
void shm_meeting_look(struct shm_meeting *meeting);
/* The same. Who brought this token; -1: nobody. The descriptor is the caller's. */
int shm_meeting_find(struct shm_meeting *meeting, const uint8_t token[SHM_TOKEN]);
/* What that guest brought, and our bell to him. NULL: no link. (not locked) */
struct shm_peer *shm_accept(struct shm *shm, int guest, struct shm_refusal *why);

/* ---- The side that connects ---- */

/* To a listener at this address. NULL: no link. (not locked) */
struct shm_peer *shm_offer(struct shm *shm, const union soft_addr *remote, uint8_t token[SHM_TOKEN],
                           struct shm_refusal *why);
/* The offer was accepted. 0 or an errno. */
int shm_accepted(struct shm_peer *peer);

#endif
