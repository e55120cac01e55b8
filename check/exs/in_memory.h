/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * in_memory.h - sockets on the device in memory (check/fuzz/mock.h), on which nothing happens but what the test says:
 * what its tests share.
 */
#ifndef CHECK_IN_MEMORY_H
#define CHECK_IN_MEMORY_H

#include "check/support/support.h"

#include "check/fuzz/core.h"

extern exs_qhandle_t queue; /* of all sockets */

/* Fixtures. */
void memory_begin(const struct mock_config *config);
void memory_end(void);

/* The connection managers have their next news. */
void go_on(void);
/* All that is posted to be sent has been. */
void send_all(void);

/* The queue's next event is this one. */
exs_event_t expect(int type, int socket, int error);
/* There is none. */
void expect_nothing(void);
/* And nobody is woken. */
void expect_rest(void);

int begin_to_connect(void);
/* So many of the three steps: the address, the route, the peer. */
void go_on_connecting(int steps);
int connect_one(void);
void close_one(int socket);

#endif
