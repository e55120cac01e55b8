/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_setup.h - how the two ends of a connection find out that they can share memory, and set the memory up.
 *
 * A listener also listens on unix sockets that are named after its address and port (shm_listener.h). Before a client
 * sends its connection request, it connects to one of these sockets, creates the memory, and sends the descriptors of
 * the memory and of its eventfd there, with a random token. The request contains the same token. When the listener
 * accepts the request it maps the memory that came with this token, sends its own eventfd back, and says in its reply
 * that the connection uses shared memory. Each end therefore has everything that it needs before it agrees to use
 * shared memory. An end that lacks something does not agree: the packets then go over TCP or UDP, and a struct
 * shm_refusal says why.
 *
 * Both ends ask the kernel for the credentials of the other, and share memory only with processes of their own user.
 */
#ifndef SOFT_SHM_SETUP_H
#define SOFT_SHM_SETUP_H

#include "shm.h"
#include "shm_listener.h"

#define SHM_TOKEN 16    /* bytes */
#define SHM_GUESTS 4096 /* maximum clients of a listener whose requests have not arrived */

/* Why a connection does not use shared memory. */
struct shm_refusal {
    const char *what; /* the step that failed, for a message */
    int error;        /* an errno; 0: no refusal */
};

/* A client that has connected to a listener's unix socket. */
struct shm_guest {
    int fd;
    bool has_token; /* its first message has arrived, and `token` is valid */
    uint8_t token[SHM_TOKEN];
};

/* A listener's unix sockets and clients. Owned by its struct cm_id, and guarded by the channel's lock. */
struct shm_setup {
    struct shm_listener listeners[SHM_LISTENERS];
    struct shm_guest *guests; /* oldest first */
    unsigned count, room;     /* entries of `guests` in use, and allocated */
    unsigned checked;         /* index of the next client whose socket is checked for a hang-up */
};

/* ---- The side that listens ---- */

/* Opens the sockets of a listener at this address. NULL: shared memory is disabled, or no socket could be opened. */
struct shm_setup *shm_setup_open(const union soft_addr *local);
void shm_setup_close(struct shm_setup *setup);
/* Accepts clients that have connected, and drops those that have hung up. */
void shm_setup_look(struct shm_setup *setup);
/* Like shm_setup_look(). Returns the socket of the client that sent this token, now owned by the caller; -1: none. */
int shm_setup_find(struct shm_setup *setup, const uint8_t token[SHM_TOKEN]);
/* Maps the memory that the client on this socket has sent, and sends the context's eventfd to the client. The caller
 * still owns the socket. Returns the peer; or NULL, with the reason in *why. (not locked) */
struct shm_peer *shm_accept(struct shm *shm, int guest, struct shm_refusal *why);

/* ---- The side that connects ---- */

/* Offers shared memory to the listener at this address. Returns the peer, and the token for the request; or NULL, with
 * the reason in *why. (not locked) */
struct shm_peer *shm_offer(struct shm *shm, const union soft_addr *remote, uint8_t token[SHM_TOKEN],
                           struct shm_refusal *why);
/* Called when the listener has accepted the offer: receives the listener's eventfd. 0 or an errno. */
int shm_accepted(struct shm_peer *peer);

#endif
