/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmpeer.h - the software device's connection manager on one side, and an untrusted peer on the other: a plain TCP
 * socket of the test ("stranger"), which sends any bytes.
 *
 * The messages are built here from the description in soft/cm/cm_message.h, without its code, so that they can be wrong
 * in any way. Everything runs in one thread: a function that waits for one side drives the other.
 */
#ifndef CHECK_CMPEER_H
#define CHECK_CMPEER_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include "soft/cm/cm.h"

enum said_type {
    SAID_REQ = 1,
    SAID_REP,
    SAID_RTU,
    SAID_REJ,
    SAID_DREQ,
    SAID_SIDR_REQ,
    SAID_SIDR_REP,
    SAID_MRA
};

#define SAID_MAX 300 /* bytes; the longest valid message has 224 */

/* A message of the peer. */
struct said {
    uint8_t bytes[SAID_MAX];
    size_t size;
};

/* Returns a valid message of this type; a REQ or REP has queue pair number 0x1234, PSN 0x777 and path MTU 4096. */
struct said said(enum said_type type);
void said_put(struct said *said, size_t at, unsigned width, uint32_t value); /* big-endian, `width` bytes */

/* A number that makes a message invalid. */
struct damage {
    const char *what;
    size_t at;
    unsigned width;
    uint32_t value;
};
extern const struct damage said_damage[]; /* for a REQ or REP */
extern const int said_damages;            /* number of elements */
struct said said_damaged(enum said_type type, const struct damage *damage);

#define CMSIDE_DEPTH 8 /* depth of the queue pair's queues */

/* The device's side: a channel with a listener, or with an identifier that connects. */
struct cmside {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener, *id; /* NULL: none, or not yet */
    struct ibv_pd *pd;
    struct sockaddr_in address; /* of the listening side */
    int listening;              /* the peer's listening TCP socket, or -1 */
};

/* The contents of an event, which is acknowledged. */
struct told {
    enum rdma_cm_event_type type;
    int status;
    struct rdma_conn_param conn;
    uint8_t private_data[256];
};

void cmside_listen(struct cmside *side);
/* Connects to the peer, and returns the peer's socket. The device's REQ has been read from it. */
int cmside_connect(struct cmside *side, struct said *req);
void cmside_close(struct cmside *side); /* the channel must have no event */

/* Stores a CONNECT_REQUEST's identifier in side->id. */
struct told cmside_expect(struct cmside *side, enum rdma_cm_event_type type);
void cmside_quiet(struct cmside *side); /* expects no event */
/* Creates a queue pair and accepts. Returns 0, or -1 and errno. */
int cmside_accept(struct cmside *side);

int stranger_dial(const struct cmside *side); /* a TCP connection to the device's listener */
void stranger_says(int fd, const struct said *said);
void stranger_says_bytes(int fd, const void *bytes, size_t length);
/* Returns the device's next message. Drives the device until then, and expects no event. */
struct said stranger_hears(struct cmside *side, int fd, enum said_type type);
/* Expects that the device closes the connection without another message or event. Closes fd. */
void stranger_is_dropped(struct cmside *side, int fd);
bool stranger_is_there(int fd); /* the device has not closed the connection so far */

#endif
