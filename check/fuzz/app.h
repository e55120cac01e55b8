/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * app.h - the program above EXS: its sockets, queues and memory, the operations that it started, and what it
 * may expect of each.
 *
 * An operation that was started has exactly one event, of its kind, on its queue; one that was refused has
 * none. The memory of a transfer is EXS's until then, and is freed at once after. One program, until app_end.
 */
#ifndef CHECK_FUZZ_APP_H
#define CHECK_FUZZ_APP_H

#include <exs.h>
#include "check/fuzz/input.h"
#include "check/fuzz/peer.h"

#define APP_SOCKETS 10
#define APP_QUEUES 4
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
    unsigned recvs, recvs_seen;
};

struct region {
    uint8_t *memory;
    size_t size, used; /* bytes; each is used once */
    exs_mhandle_t handle;
    int flags;
};

/* An operation. */
struct asked {
    bool waits;  /* for its event */
    bool silent; /* no queue was named: no event */
    bool unsignaled;
    int type, number;
    struct app_socket *socket; /* its slot; another's when the serial is */
    unsigned serial;
    exs_qhandle_t queue;
    uint8_t *buffer, *own; /* own: to be freed */
    size_t length;
    bool registered, waitall;
    bool shared; /* others move bytes from or to the same buffer */
    struct peer *peer;
    unsigned order; /* of a socket's receives */
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
exs_qhandle_t app_some_queue(struct input *input); /* seldom none */
void app_serve_all(void); /* the peers go on, and so do the queues, until nothing happens any more */

#endif
