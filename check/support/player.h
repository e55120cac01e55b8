/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * player.h - one side of a ping-pong, driven by events, whoever waits for them.
 *
 * Both sides draw the same random sizes from the same seed. The client sends and waits for the echo;
 * the server echoes. A player fails its test on an event that it is not owed, on one with an error,
 * and on wrong bytes. The ahandle of every event of a player is the player.
 */
#ifndef CHECK_PLAYER_H
#define CHECK_PLAYER_H

#include "support.h"

struct player { /* owned by the thread that takes the events of its queue */
    int socket;
    exs_qhandle_t queue; /* where its events go */
    bool serves;
    int rounds;  /* still to play; the game is over at 0 */
    size_t most; /* bytes of one message */
    struct chance sizes;
    size_t size;
    char *out, *in;
    bool owed_send, owed_recv;
};

void player_open(struct player *p, int socket, exs_qhandle_t queue, bool serves, int rounds, size_t most,
                 uint64_t seed);                               /* and start */
void player_event(struct player *p, const exs_event_t *event); /* the ahandle of the event is p */
void player_close(struct player *p);                           /* it must be over */
bool player_is_over(const struct player *p);

#endif
