/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lingering.h - a client that sends more than can arrive at once, and closes: shared by the tests of EXS_LINGER and
 * SO_LINGER.
 */
#ifndef CHECK_LINGERING_H
#define CHECK_LINGERING_H

#include "check/support/support.h"

#define LENGTH (300 * KIB) /* more than the peer's ring buffer */
#define SENDS 3
#define READS 60
#define READ (64 * KIB)

void set_linger(int socket, int on, int seconds);

/* Starts SENDS sends of length_of() bytes. The buffers are LENGTH apart in the returned memory; each one's address is
 * its send's ahandle. */
size_t length_of(int send);
uint8_t *send_all(struct pair *pair);
/* Starts READS reads of the peer's memory `there`. The buffers are READ apart in the returned memory; each one's
 * address is its read's ahandle. */
uint8_t *read_all(struct pair *pair, uint8_t *there);

void close_client(struct pair *pair, int flags); /* the ahandle is `pair` */
/* ends() checks that this is the next event; client_ends() does so for all sends and then the close. */
void ends(struct inbox *box, int type, const void *ahandle, int error);
void client_ends(struct pair *pair, const uint8_t *out, int send_error, int close_error);
void close_server(struct pair *pair); /* closes the server and frees the pair */

#endif
