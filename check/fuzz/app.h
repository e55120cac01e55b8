/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * app.h - the program above EXS: its sockets, queues and memory, the operations that it started, and what it
 * may expect of each.
 *
 * An operation that was started has exactly one event, of its kind, on its queue, also if it was cancelled; one
 * that was refused has none; an accept of many has one for each, and one with an error, which is the last. The
 * memory of a transfer is EXS's until then, and is freed at once after. One program, until app_end.
 */
#ifndef CHECK_FUZZ_APP_H
#define CHECK_FUZZ_APP_H

#include <exs.h>
#include "check/fuzz/input.h"
#include "check/fuzz/peer.h"

#define APP_SOCKETS 10
#define APP_FEW_QUEUES 4
#define APP_QUEUES 16 /* more than may watch one listener; those behind the few come together */
#define APP_REGIONS 4
#define APP_ASKED 512
#define APP_CLOSES 64 /* of them are kept for the end, where no close may wait for what nobody does */
#define APP_HUGE ((size_t)300 << 20) /* bytes, more than one message holds: a buffer that many share */

struct app_socket {
    int number;      /* -1: none */
    unsigned serial; /* numbers come again */
    int family, type;
    exs_qhandle_t recv_queue; /* of the first receive; all_one: of the others, too */
    bool all_one;
    unsigned recvs;
    bool limits_recvs, limits_sends; /* SO_RCVTIMEO, SO_SNDTIMEO: from now on; accepted ones have them, too */
};

struct region {
    uint8_t *memory;
    size_t size, used; /* bytes; each is used once */
    exs_mhandle_t handle;
    int flags;
};

/* A part of an exs_recvfile: in a file, or else in memory. */
struct part {
    int fd;
    uint8_t *memory;
    size_t length;
};

/* An operation. */
struct asked {
    bool waits;  /* for its event */
    bool silent; /* no queue was named: no event */
    bool unsignaled;
    bool multishot;
    bool limited;   /* to some time */
    bool cancelled; /* exs_cancel was called for it: it may have ended before */
    bool partial;   /* MSG_DONTWAIT: it sends what it can */
    bool peeks;
    int type, number;
    struct app_socket *socket; /* its slot; another's when the serial is */
    unsigned serial;
    exs_qhandle_t queue;
    uint8_t *buffer, *own; /* own: to be freed */
    size_t length;
    bool registered, waitall;
    bool shared; /* others move bytes from or to the same buffer */
    struct peer *peer;
    unsigned order;   /* of a socket's receives */
    size_t at, moves; /* of a send: where in the peer's stream it begins, how much of it will be there, */
    unsigned message_number; /* and which of the peer's messages it is */
    struct part parts[3];    /* of a received file */
    int part_count;
    const exs_xferfile_t *vector;
    uint64_t remote;
    exs_acceptaddr_t element, *many; /* many: its element of several, instead */
    exs_msghdr_t message;            /* of a transfer in pieces */
    struct sockaddr_storage address;
};

extern struct app {
    struct app_socket sockets[APP_SOCKETS];
    exs_qhandle_t queues[APP_QUEUES]; /* the first is always there */
    struct region regions[APP_REGIONS];
    struct asked asked[APP_ASKED];
    unsigned asked_count;
    bool many_accepted, ends;
    uint8_t fill; /* of the next buffer */
} app;

void app_begin(void);
void app_end(void); /* everything is closed, and given back */

struct app_socket *app_socket_add(int number, int family, int type); /* NULL: no slot */
struct peer *app_peer(int number); /* whom the socket is connected to, or NULL */
struct asked *app_ask(int type, struct app_socket *socket, exs_qhandle_t queue); /* NULL: no room for more */
/* It returned that. */
void app_answer(struct asked *asked, long result);
int app_dequeue(exs_qhandle_t queue, int most); /* and judge what comes */
bool app_waits(int type);                       /* an operation of this kind (0: any) waits for its event */
void app_call(struct input *input);             /* one call of EXS's */
void app_call_transfer(struct input *input, struct app_socket *socket, unsigned what);
size_t app_some_length(uint8_t choice); /* bytes, 1 MiB at most */
/* These bytes are the send's, behind those that were; and that was all of it. */
void app_will_arrive(struct asked *asked, const void *bytes, size_t length);
void app_one_message(struct asked *asked);
/* A receive was started. */
void app_received(struct asked *asked, exs_qhandle_t queue);

/* Files (app_files.c). */
void app_call_sendfile(struct input *input, struct app_socket *socket);
void app_call_recvfile(struct input *input, struct app_socket *socket);
void app_file_came(struct asked *asked, size_t length); /* so many bytes, in asked->buffer then */

/* What ends operations before they are done (app_stops.c). */
void app_call_cancel(struct input *input, struct app_socket *socket);
void app_call_limit(struct input *input, struct app_socket *socket);
void app_sent_at_once(struct asked *asked); /* with MSG_DONTWAIT, of which some may be cut off */
void app_time_passes(void);
exs_qhandle_t app_some_queue(struct input *input); /* seldom none */
void app_serve_all(void); /* the peers go on, and so do the queues, until nothing happens any more */

#endif
