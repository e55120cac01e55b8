/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scene.h - where the tests of bad peers take place: an EXS server that accepted a raw peer, and beside it, on
 * the same queue, a connection of two who behave.
 *
 * One of each in a process, which scene_close expects to find as scene_open made them.
 */
#ifndef CHECK_SCENE_H
#define CHECK_SCENE_H

#include "rawpeer.h"

#define BYTES 20000      /* of a receive: too many for a bounce buffer, so it is advertised */
#define SENT (256 * KIB) /* of a send: more than the peer's ring buffer holds */

struct scene {
    struct inbox box;
    struct pair others;
    struct raw raw;
    struct address address; /* of the listener, */
    int listener;
    int socktype;   /* its type, */
    int server;     /* and the socket that it made for the raw peer, or -1 */
    char *in, *out; /* BYTES, and one more that stays a CANARY; SENT */
};
extern struct scene scene;

void scene_stage(int socktype);       /* the raw peer is open, and not connected */
void scene_enter(struct hello hello); /* it is accepted */
void scene_open(struct hello hello);  /* both */
void scene_open_type(int socktype);
void scene_close(void); /* nothing else has happened, and all others are served */
int scene_accept(struct raw *raw, struct hello hello); /* one more: the socket that is its */

/* What EXS is doing. */
enum doing {
    IDLE,
    RECEIVING, /* BYTES, which it has advertised */
    SENDING    /* SENT, and on a STREAM the peer's ring buffer is full of them */
};

struct control scene_do(enum doing what); /* the advertisement of the receive */
void scene_undone(enum doing what);       /* it fails with ECONNRESET */
void scene_broken(void); /* the peer sees the end, and further transfers fail with ECONNRESET */
void scene_alive(void);  /* bytes go from EXS to the STREAM's peer and back */

#endif
