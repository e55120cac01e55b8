/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * grown.h - the files that are being received into, and the length that each file must have when no receive uses it any
 * more.
 *
 * A window of a receive (sink.h) extends its file before any data has arrived. When the last receive into the file
 * ends, the file is truncated to the data that has arrived. A receive that ends earlier must not truncate the file,
 * because the other receives may have written beyond its data. All functions are thread-safe: grown.c has a lock.
 */
#ifndef XS_GROWN_H
#define XS_GROWN_H

#include <stdint.h>

/* One file. Freed when the last receive into it leaves. */
struct grown;

/* Called when a receive into this file starts. Returns NULL and errno on failure. */
struct grown *grown_join(int fd);
/* Records that a window has extended the file to `length` bytes. */
void grown_by(struct grown *grown, uint64_t length);
/* Records that the first `length` bytes of the file have arrived, or are about to be written, and must be kept. */
void grown_keep(struct grown *grown, uint64_t length);
/* Called when a receive has ended; the last one truncates the file. */
void grown_leave(struct grown *grown, int fd);
/* Forgets all files, in a forked child. */
void grown_reset(void);

#endif
