/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trial.h - what the body of a test works with.
 *
 * A test is a process: it sets up what it needs with the ok_ calls, makes the call that the row is about, and
 * gives what came of it to outcome(). Its peer, where it has one, is another process (peer.c), which does one
 * blocking call after another as it is told to.
 */
#ifndef TRIAL_H
#define TRIAL_H

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include "conformance.h"

#define BAD_FD (-1)
#define BAD_FLAG 2
#define INVALID_QHANDLE EXS_QHANDLE_INVALID
#define BUFSIZE 4096                 /* bytes, of trial.buffer */
#define MAX_LENGTH (EXS_MSG_MAX + 1) /* bytes, more than the RDMA channel takes */
#define PATIENCE 5                   /* seconds that an event, or the peer, may take */

struct address {
    struct sockaddr_storage storage;
    socklen_t length; /* bytes */
};

struct trial { /* on the stack of the test's process */
    const struct options *options;
    const struct group *group;
    const struct row *row;
    struct verdict *verdict;
    int flags;             /* EXS_BLOCK or 0, as the mode is */
    exs_qhandle_t queue;   /* NULL in blocking mode */
    int type;              /* of the sockets: SOCK_STREAM unless the body says otherwise */
    int fd;                /* the socket under test */
    bool connected;        /* fd is, and usable: an error must leave it so */
    bool listening;        /* fd is, likewise */
    struct address server; /* the peer's or ours */
    int peer;              /* socket to the peer process; -1 = none yet */
    int peer_pid;
    int access;      /* what the peer is to export for */
    int event_flags; /* MSG_TRUNC and EXS_EOF, of the last event that moved() took */
    unsigned char buffer[BUFSIZE];
};

/* ---- Correct calls, to set up (setup.c, transfer.c): end the test as failed when they fail ---- */

void ok_init(struct trial *trial);
void ok_queue(struct trial *trial); /* trial.queue, in non-blocking mode */
exs_qhandle_t ok_qcreate(struct trial *trial);
int ok_socket(struct trial *trial);
void ok_bind(struct trial *trial, int fd, const char *port);
void ok_listen(struct trial *trial, int fd);
exs_mhandle_t ok_mregister(struct trial *trial, void *address, size_t size, int flags);

/* exs_init, the queue that the mode needs, and a socket. */
void ok_fresh(struct trial *trial);
/* ... that listens. */
void ok_listening(struct trial *trial);
/* ... with a peer that listens at trial.server. */
void ok_server(struct trial *trial);
/* ... connected to it. */
void ok_connected(struct trial *trial);
/* ... that came from accepting the peer. */
void ok_accepted(struct trial *trial);

void ok_shutdown(struct trial *trial, int how);
void ok_send(struct trial *trial, const void *buffer, size_t length);
void ok_receive(struct trial *trial, void *buffer, size_t length);
/* Kill the peer, and receive until the library has noticed. */
void ok_reset(struct trial *trial);
/* Accept the connection that the peer was told to make. */
int ok_accept(struct trial *trial);

/* The address that the command line gave, with this port; the peer's machine's, where that is another. */
void resolve(struct trial *trial, const char *port, struct address *address);
void resolve_peer(struct trial *trial, const char *port, struct address *address);
/* Where the socket is bound to. */
void local_address(struct trial *trial, int fd, struct address *address);
uint16_t *port_of(struct address *address);
/* A file in memory of this many bytes; its content up to BUFSIZE bytes is pattern(). */
int file_of(struct trial *trial, off_t size);
/* Bytes as the peer sends them, and as it expects them. */
void pattern(unsigned char *buffer, size_t length);

/* ---- Events (events.c) ----------------------------------------------------------------------- */

/* Take the next event of the queue, which must be of this type and ahandle. */
exs_event_t ok_event(struct trial *trial, exs_qhandle_t queue, int type, void *ahandle);
/* The queue has no event, and says so both ways. */
void no_event(struct trial *trial, exs_qhandle_t queue);
/* What a call that moves bytes has moved: its result in blocking mode, else its event's. -1 and errno. */
ssize_t moved(struct trial *trial, ssize_t result, int type);
/* Likewise for a call that returns 0: 0, or -1 and errno. */
int done(struct trial *trial, ssize_t result, int type);

/* ---- What came of it (outcome.c) ------------------------------------------------------------- */

/*
 * Compare what the call gave with what its row says; call it at once, errno is read here. An error must have
 * posted no event, and have left trial.fd as it was: a connection still carries bytes, a listener still
 * accepts.
 */
void outcome(struct trial *trial, long result);
/* The test fails unless this holds. */
void require(struct trial *trial, bool holds, const char *what);
/* End the test: a correct call failed (errno says why). */
void broken(struct trial *trial, const char *what) __attribute__((noreturn));

/* ---- The peer (peer.c) ----------------------------------------------------------------------- */

enum peer_task {
    PEER_LISTEN, /* answers with its address */
    PEER_ACCEPT,
    PEER_CONNECT,  /* to trial.server */
    PEER_SEND,     /* count bytes of pattern() */
    PEER_RECEIVE,  /* count bytes, all of them; answers with a sum over them */
    PEER_DRAIN,    /* receive until the end */
    PEER_SHUTDOWN, /* for writing */
    PEER_CLOSE,
    PEER_EXPORT,   /* count bytes of pattern(), with these rights; answers with the token */
    PEER_UNEXPORT, /* these, again */
    PEER_SUM,      /* answers with a sum over them */
};

struct peer_order {
    enum peer_task task;
    int type;
    size_t count; /* bytes */
    int access;
    struct address address;
};

struct peer_answer {
    long result; /* of the last exs_ call; -1 with error */
    int error;
    size_t count; /* bytes */
    uint64_t sum;
    struct address address;
    exs_token_t token;
};

/* Start the process: before exs_init. */
void peer_start(struct trial *trial);
/* Tell it to do something and go on; its answer must be heard before the next order. */
void peer_tell(struct trial *trial, enum peer_task task, size_t count);
struct peer_answer peer_hear(struct trial *trial);
/* Both. */
struct peer_answer peer_do(struct trial *trial, enum peer_task task, size_t count);
void peer_kill(struct trial *trial);
/* Obey, until the orders end. */
void peer_serve(int orders) __attribute__((noreturn));
/* peer_start on the machine that the command line named (remote.c). */
void remote_start(struct trial *trial);
uint64_t sum_of(const void *buffer, size_t length, uint64_t sum);
#define SUM_START UINT64_C(0xcbf29ce484222325)

#endif
