/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * grown.h - files that are being received into, and the length that they must have afterwards.
 *
 * A window of a receive extends its file before any data has arrived. When the last receive into the file ends, the
 * file is truncated to the data that arrived. An earlier one must not do that, because the other receives may have
 * written beyond its data. All functions are thread-safe.
 */
#ifndef XS_GROWN_H
#define XS_GROWN_H

#include <stdint.h>

struct grown;

/* A receive into this file starts. Returns NULL and errno on failure. */
struct grown *grown_join(int fd);
/* A window has extended the file to `length` bytes. */
void grown_by(struct grown *grown, uint64_t length);
/* The file must keep its first `length` bytes, which have arrived or are about to be written. */
void grown_keep(struct grown *grown, uint64_t length);
/* The receive has ended. */
void grown_leave(struct grown *grown, int fd);
/* Forgets all files, in a forked child. */
void grown_reset(void);

#endif
