/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trial.h - the state and the functions that the body of a test uses.
 *
 * A test is a process: it prepares objects with the ok_ functions, makes the call of its row, and passes the result to
 * outcome(). Its peer, if it has one, is another process (peer.c), which executes the test's orders by blocking calls.
 */
#ifndef TRIAL_H
#define TRIAL_H

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include "conformance.h"

#define BAD_FD (-1)
#define UNUSED_FD 19999 /* no open descriptor; tests of BAD_FD try it, too */
#define BAD_FLAG 2
#define INVALID_QHANDLE EXS_QHANDLE_INVALID
#define BUFSIZE 4096                 /* bytes of trial.buffer */
#define MAX_LENGTH (EXS_MSG_MAX + 1) /* bytes; more than a message may have */
#define PATIENCE 5                   /* timeout in seconds for an event or an answer of the peer */

struct address {
    struct sockaddr_storage storage;
    socklen_t length; /* bytes */
};

struct trial { /* on the stack of the test's process */
    const struct options *options;
    const struct group *group;
    const struct row *row;
    struct verdict *verdict;
    int flags;             /* EXS_BLOCK in blocking mode, else 0 */
    exs_qhandle_t queue;   /* NULL in blocking mode */
    int type;              /* of the sockets: SOCK_STREAM, unless the body changes it */
    int fd;                /* the socket under test */
    bool connected;        /* fd is connected; outcome() checks that it is usable after an error */
    bool listening;        /* fd is listening; outcome() checks that it is usable after an error */
    struct address server; /* of the listener, at the peer or in this process */
    int peer;              /* socket to the peer process; -1: not started */
    int peer_pid;
    int access; /* rights with which the peer exports */
    bool
        other_call; /* the library has been called since the tested call failed: exs_errmsg() is of that call */
    int event_flags; /* MSG_TRUNC and EXS_EOF of the last event in moved() */
    unsigned char buffer[BUFSIZE];
};

/* ---- Correct calls, to prepare a test (setup.c, transfer.c). If one fails, the test fails. ----- */

void ok_init(struct trial *trial);
void ok_queue(struct trial *trial); /* creates trial.queue in non-blocking mode */
exs_qhandle_t ok_qcreate(struct trial *trial);
int ok_socket(struct trial *trial);
void ok_bind(struct trial *trial, int fd, const char *port);
void ok_listen(struct trial *trial, int fd);
exs_mhandle_t ok_mregister(struct trial *trial, void *address, size_t size, int flags);

/* Calls exs_init(), and creates the queue of the mode and a socket. */
void ok_fresh(struct trial *trial);
/* Starts a peer, calls ok_fresh(), and lets the socket listen. */
void ok_listening(struct trial *trial);
/* Calls ok_fresh(), and starts a peer that listens on trial.server. */
void ok_server(struct trial *trial);
/* Calls ok_server(), and connects the socket to the peer. */
void ok_connected(struct trial *trial);
/* Accepts a connection of the peer; trial.fd is the accepted socket. */
void ok_accepted(struct trial *trial);

void ok_shutdown(struct trial *trial, int how);
void ok_send(struct trial *trial, const void *buffer, size_t length);
void ok_receive(struct trial *trial, void *buffer, size_t length);
/* Kills the peer, and receives until the library has detected the loss. */
void ok_reset(struct trial *trial);
/* Accepts the connection that the peer was ordered to establish. */
int ok_accept(struct trial *trial);

/* Set the address of the command line with this port: resolve() that of this host, resolve_peer() that of the peer's
 * host. */
void resolve(struct trial *trial, const char *port, struct address *address);
void resolve_peer(struct trial *trial, const char *port, struct address *address);
/* Gets the socket's local address. */
void local_address(struct trial *trial, int fd, struct address *address);
uint16_t *port_of(struct address *address);
/* Creates a file in memory with this number of bytes; the first BUFSIZE bytes are pattern(). */
int file_of(struct trial *trial, off_t size);
/* Writes the bytes that the peer sends and expects. */
void pattern(unsigned char *buffer, size_t length);

/* ---- Events (events.c) ----------------------------------------------------------------------- */

/* Removes the next event of the queue, which must have this type and ahandle. */
exs_event_t ok_event(struct trial *trial, exs_qhandle_t queue, int type, void *ahandle);
/* Checks, by exs_qdequeue() and by the descriptor, that the queue has no event. */
void no_event(struct trial *trial, exs_qhandle_t queue);
/* Returns the bytes transferred by a call: the result in blocking mode, otherwise that of its event; or -1 and
 * errno. */
ssize_t moved(struct trial *trial, ssize_t result, int type);
/* Like moved(), for a call without a byte count: returns 0, or -1 and errno. */
int done(struct trial *trial, ssize_t result, int type);

/* ---- Result of the test (outcome.c) ---------------------------------------------------------- */

/*
 * Compares the result of the call with the row. Must be called immediately after the call, because it reads errno. If
 * the call has failed, checks that there is no event and that trial.fd is unchanged: a connection can still transfer
 * data, a listener can still accept.
 */
void outcome(struct trial *trial, long result);
/* Fails the test unless `holds`. */
void require(struct trial *trial, bool holds, const char *what);
/* Ends the test as failed, because a correct call has failed with errno. */
void broken(struct trial *trial, const char *what) __attribute__((noreturn));

/* ---- The peer (peer.c) ----------------------------------------------------------------------- */

enum peer_task {
    PEER_LISTEN, /* answers with its address */
    PEER_ACCEPT,
    PEER_CONNECT,  /* to trial.server */
    PEER_SEND,     /* count bytes of pattern() */
    PEER_RECEIVE,  /* exactly count bytes; answers with their checksum */
    PEER_DRAIN,    /* receives until the end of the stream; answers like PEER_RECEIVE */
    PEER_SHUTDOWN, /* SHUT_WR */
    PEER_CLOSE,
    PEER_EXPORT,   /* exports count bytes of pattern() with these rights; answers with the token */
    PEER_UNEXPORT, /* revokes the export */
    PEER_SUM,      /* answers with the checksum of the exported bytes */
};

struct peer_order {
    enum peer_task task;
    int type;
    size_t count; /* bytes */
    int access;
    struct address address;
};

struct peer_answer {
    long result; /* of the last exs_ call; -1: `error` is its errno */
    int error;
    size_t count; /* bytes */
    uint64_t sum;
    struct address address;
    exs_token_t token;
};

/* Starts the peer's process. Must be called before exs_init(). */
void peer_start(struct trial *trial);
/* peer_tell() sends an order and does not wait; peer_hear() must receive the answer before the next order. */
void peer_tell(struct trial *trial, enum peer_task task, size_t count);
struct peer_answer peer_hear(struct trial *trial);
/* Sends an order and receives the answer. */
struct peer_answer peer_do(struct trial *trial, enum peer_task task, size_t count);
void peer_kill(struct trial *trial);
/* The peer's process: executes orders until the connection is closed. */
void peer_serve(int orders) __attribute__((noreturn));
/* Like peer_start(), on the host of the command line (remote.c). */
void remote_start(struct trial *trial);
uint64_t sum_of(const void *buffer, size_t length, uint64_t sum);
#define SUM_START UINT64_C(0xcbf29ce484222325)

#endif
