/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scene.h - the fixture of the tests with misbehaving peers: an EXS server that accepted a raw peer, and on the same
 * queue a second connection whose ends behave well.
 *
 * There is one scene in a process. scene_close() expects that nothing but the tested connection was affected.
 */
#ifndef CHECK_SCENE_H
#define CHECK_SCENE_H

#include "rawpeer.h"

#define BYTES 20000      /* length of a receive; too long for a bounce buffer, so it is advertised */
#define SENT (256 * KIB) /* length of a send; longer than the peer's receive ring */

struct scene {
    struct inbox box;
    struct pair others;
    struct raw raw;
    struct address address; /* of the listener */
    int listener;
    int socktype;   /* of the listener */
    int server;     /* the accepted socket of the raw peer, or -1 */
    char *in, *out; /* BYTES and one more that stays CANARY; SENT bytes */
};
extern struct scene scene;

void scene_stage(int socktype);       /* opens the raw peer, not connected */
void scene_enter(struct hello hello); /* connects and accepts it */
void scene_open(struct hello hello);  /* both */
void scene_open_type(int socktype);
void scene_close(void); /* expects no other event, and that all other connections work */
/* Connects another raw peer; returns its accepted socket. */
int scene_accept(struct raw *raw, struct hello hello);

/* The operation of EXS that is outstanding. */
enum doing {
    IDLE,
    RECEIVING, /* a receive of BYTES, which is advertised */
    SENDING    /* a send of SENT bytes; on a STREAM the peer's receive ring is full */
};

struct control scene_do(enum doing what); /* returns the receive's advertisement */
void scene_undone(enum doing what);       /* expects that it fails with ECONNRESET */
void scene_broken(void);                  /* expects a disconnection; further transfers fail with ECONNRESET */
void scene_alive(void);                   /* transfers a byte from EXS to the STREAM's peer and back */

#endif
