/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * in_memory.h - sockets on the simulated device (check/fuzz/mock.h), on which things happen only when the test says so:
 * shared by its tests.
 */
#ifndef CHECK_IN_MEMORY_H
#define CHECK_IN_MEMORY_H

#include "check/support/support.h"

#include "check/fuzz/core.h"

extern exs_qhandle_t queue; /* for all sockets */

/* Fixtures. */
void memory_begin(const struct mock_config *config);
void memory_end(void);

/* Delivers the next event of each connection manager id. */
void go_on(void);
/* Completes all posted sends. */
void send_all(void);

/* Checks that the queue's next event is this one, and returns it. */
exs_event_t expect(int type, int socket, int error);
/* Checks that the queue has no event. */
void expect_nothing(void);
/* Checks that the queue has no event and that its descriptor is not readable. */
void expect_rest(void);

int begin_to_connect(void);
/* Runs this number of a connect's three steps: address resolution, route resolution, connection. */
void go_on_connecting(int steps);
int connect_one(void);
void close_one(int socket);

#endif
