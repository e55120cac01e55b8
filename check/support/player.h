/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * player.h - one side of a ping-pong test, driven by events; any thread may wait for them.
 *
 * Both sides use the same sequence of random sizes. The client sends and waits for the echo; the server echoes. A
 * player fails its test on an unexpected event, an event with an error, or wrong bytes. The ahandle of all its events
 * is the player.
 */
#ifndef CHECK_PLAYER_H
#define CHECK_PLAYER_H

#include "support.h"

struct player { /* owned by the thread that dequeues its events */
    int socket;
    exs_qhandle_t queue; /* receives its events */
    bool serves;
    int rounds;  /* rounds left to play */
    size_t most; /* maximum bytes of a message */
    struct chance sizes;
    size_t size;
    char *out, *in;
    bool owed_send, owed_recv;
};

void player_open(struct player *p, int socket, exs_qhandle_t queue, bool serves, int rounds, size_t most,
                 uint64_t seed);                               /* starts the first round */
void player_event(struct player *p, const exs_event_t *event); /* the event's ahandle must be p */
void player_close(struct player *p);                           /* all rounds must be over */
bool player_is_over(const struct player *p);

#endif
