/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lingering.h - a client that has sent more than arrives at once, and closes: what the tests of EXS_LINGER and
 * SO_LINGER share.
 */
#ifndef CHECK_LINGERING_H
#define CHECK_LINGERING_H

#include "check/support/support.h"

#define LENGTH (300 * KIB) /* more than the peer's ring buffer */
#define SENDS 3
#define READS 60
#define READ (64 * KIB)

void set_linger(int socket, int on, int seconds);

/* SENDS of these lengths, LENGTH apart from each other in what is returned, which is each one's handle. */
size_t length_of(int send);
uint8_t *send_all(struct pair *pair);
/* READS of the peer's memory, `there`, likewise READ apart. */
uint8_t *read_all(struct pair *pair, uint8_t *there);

void close_client(struct pair *pair, int flags); /* the event's handle is the pair */
/* The next event is this one; or those of all sends and then of the close. */
void ends(struct inbox *box, int type, const void *ahandle, int error);
void client_ends(struct pair *pair, const uint8_t *out, int send_error, int close_error);
void close_server(struct pair *pair); /* and the rest */

#endif
