/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * grown.h - files that are being received into, and how long they are to be.
 *
 * A window of a receive makes its file as long as the window, before anything has come. What did not come is
 * cut off again at the end, but not what other receives have written there meanwhile: so the last one cuts.
 */
#ifndef XS_GROWN_H
#define XS_GROWN_H

#include <stdint.h>

struct grown;

/* A receive into this file begins. NULL and errno. */
struct grown *grown_join(int fd);
/* A window has made the file so long. */
void grown_by(struct grown *grown, uint64_t length);
/* It is to have this many bytes at least, since they have come, or are going to be written at once. */
void grown_keep(struct grown *grown, uint64_t length);
/* The receive is over. */
void grown_leave(struct grown *grown, int fd);
/* In a forked child nothing is being received. */
void grown_reset(void);

#endif
