/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmpeer.h - the embedded device's connection manager on one side, and on the other a TCP socket that says
 * bytes.
 *
 * The bytes are put together here, from soft's cm_message.h as it is written there and without its code,
 * so that they can be wrong in any way. One thread: whoever waits for one side drives the other.
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

#define SAID_MAX 300 /* bytes; the longest message that is right has 224 */

/* What the stranger says. */
struct said {
    uint8_t bytes[SAID_MAX];
    size_t size;
};

/* A right message of this type; a REQ or REP names queue pair 0x1234, PSN 0x777, path MTU 4096. */
struct said said(enum said_type type);
void said_put(struct said *said, size_t at, unsigned width, uint32_t value); /* big-endian, so many bytes */

/* A number that no message may have. */
struct damage {
    const char *what;
    size_t at;
    unsigned width;
    uint32_t value;
};
extern const struct damage said_damage[]; /* of a REQ or REP */
extern const int said_damages;            /* how many these are */
struct said said_damaged(enum said_type type, const struct damage *damage);

#define CMSIDE_DEPTH 8 /* of the queues of our side's queue pair */

/* Our side: a channel with a listener, or with an identifier that connects. */
struct cmside {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener, *id; /* NULL: none (yet) */
    struct ibv_pd *pd;
    struct sockaddr_in address; /* of the listener, ours or the stranger's */
    int listening;              /* the stranger's TCP socket for that, or -1 */
};

/* What an event said; it is acknowledged. */
struct told {
    enum rdma_cm_event_type type;
    int status;
    struct rdma_conn_param conn;
    uint8_t private_data[256];
};

void cmside_listen(struct cmside *side);
/* Connect to the stranger; returns his end, with our REQ read from it. */
int cmside_connect(struct cmside *side, struct said *req);
void cmside_close(struct cmside *side); /* no event may be left */

struct told cmside_expect(struct cmside *side, enum rdma_cm_event_type type); /* a CONNECT_REQUEST's id, too */
void cmside_quiet(struct cmside *side);                                       /* no event is waiting */
/* With a queue pair of its own. 0, or -1 and errno. */
int cmside_accept(struct cmside *side);

int stranger_dial(const struct cmside *side); /* a TCP connection to our listener */
void stranger_says(int fd, const struct said *said);
void stranger_says_bytes(int fd, const void *bytes, size_t length);
/* The next message of ours; our side is driven meanwhile, and has no event. */
struct said stranger_hears(struct cmside *side, int fd, enum said_type type);
/* Our side has hung up, or does so without another word to anybody. Closes fd. */
void stranger_is_dropped(struct cmside *side, int fd);
bool stranger_is_there(int fd); /* our side has not hung up so far */

#endif
