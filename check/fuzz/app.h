/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * app.h - the program that uses EXS: its sockets, queues and memory, the operations that it started, and the results
 * that each may have.
 *
 * Every operation that was started has exactly one event, of its type, on its queue, also if it was cancelled. An
 * operation that was refused has none. A multishot accept has one event for each connection, and a last one with an
 * error. EXS owns the memory of a transfer until its event; it is freed immediately after it. There is one program,
 * until app_end().
 */
#ifndef CHECK_FUZZ_APP_H
#define CHECK_FUZZ_APP_H

#include <exs.h>
#include "check/fuzz/input.h"
#include "check/fuzz/peer.h"

#define APP_SOCKETS 10
#define APP_FEW_QUEUES 4
#define APP_QUEUES 16 /* more than may watch one listener directly; the others are on standby */
#define APP_REGIONS 4
#define APP_ASKED 512
#define APP_CLOSES 64 /* of APP_ASKED, reserved for the end, where every close must be possible */
#define APP_HUGE ((size_t)300 << 20) /* bytes; longer than a message may be; one buffer shared by all */

struct app_socket {
    int number;      /* -1: none */
    unsigned serial; /* distinguishes sockets with the same number */
    int family, type;
    exs_qhandle_t recv_queue; /* queue of the first receive; all_one: all receives use it */
    bool all_one;
    unsigned recvs;
    /* SO_RCVTIMEO, SO_SNDTIMEO apply to new operations; accepted sockets inherit them. */
    bool limits_recvs, limits_sends;
};

struct region {
    uint8_t *memory;
    size_t size, used; /* bytes; each is used once */
    exs_mhandle_t handle;
    int flags;
};

/* A part of an exs_recvfile(): in a file, or in memory. */
struct part {
    int fd;
    uint8_t *memory;
    size_t length;
};

/* An operation. */
struct asked {
    bool waits;  /* has no event yet */
    bool silent; /* no queue was given, so there is no event */
    bool unsignaled;
    bool multishot;
    bool limited;   /* has a timeout */
    bool cancelled; /* exs_cancel() was called for it; it may have ended before */
    bool partial;   /* MSG_DONTWAIT: may send less */
    bool peeks;
    int type, number;
    struct app_socket *socket; /* its slot, which belongs to another socket if the serial differs */
    unsigned serial;
    exs_qhandle_t queue;
    uint8_t *buffer, *own; /* own: to be freed */
    size_t length;
    bool registered, waitall;
    bool shared; /* other transfers use the same buffer */
    struct peer *peer;
    unsigned order; /* order among the receives of its socket */
    /* Of a send: its offset in the stream to the peer, and the number of its bytes that arrive. */
    size_t at, moves;
    unsigned message_number; /* of a send: its number among the messages */
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
    exs_qhandle_t queues[APP_QUEUES]; /* the first always exists */
    struct region regions[APP_REGIONS];
    struct asked asked[APP_ASKED];
    unsigned asked_count;
    bool many_accepted, ends;
    uint8_t fill; /* value of the next buffer */
} app;

void app_begin(void);
void app_end(void); /* closes and frees everything */

struct app_socket *app_socket_add(int number, int family, int type); /* NULL: no slot is free */
struct peer *app_peer(int number); /* the peer of the socket's connection, or NULL */
/* Records an operation; NULL: there is no space. */
struct asked *app_ask(int type, struct app_socket *socket, exs_qhandle_t queue);
/* Records the result of the call. */
void app_answer(struct asked *asked, long result);
int app_dequeue(exs_qhandle_t queue, int most); /* dequeues events and checks them */
bool app_waits(int type);                       /* an operation of this type (0: any) has no event yet */
void app_call(struct input *input);             /* makes one call of EXS */
void app_call_transfer(struct input *input, struct app_socket *socket, unsigned what);
size_t app_some_length(uint8_t choice); /* bytes, at most 1 MiB */
/* app_will_arrive(): the peer must receive these bytes of the send, behind the earlier ones. app_one_message(): the
 * send is complete. */
void app_will_arrive(struct asked *asked, const void *bytes, size_t length);
void app_one_message(struct asked *asked);
/* Records that a receive was started. */
void app_received(struct asked *asked, exs_qhandle_t queue);

/* Files (app_files.c). */
void app_call_sendfile(struct input *input, struct app_socket *socket);
void app_call_recvfile(struct input *input, struct app_socket *socket);
/* `length` bytes arrived; copies them to asked->buffer. */
void app_file_came(struct asked *asked, size_t length);

/* Operations that end early (app_stops.c). */
void app_call_cancel(struct input *input, struct app_socket *socket);
void app_call_limit(struct input *input, struct app_socket *socket);
void app_sent_at_once(struct asked *asked); /* with MSG_DONTWAIT, which may send less */
void app_time_passes(void);
exs_qhandle_t app_some_queue(struct input *input); /* rarely an invalid one */
void app_serve_all(void); /* drives the peers and the queues until nothing happens any more */

#endif
