/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file.h - where the bytes of an exs_sendfile come from. And of an exs_sendmsg: its pieces are elements in
 * memory. Short ones are copied together.
 *
 * Files are sent a window at a time. Where the device can read a file itself (reg_file), that is all that it is
 * told; else by mmap: mapped, registered, given to the device, and unmapped when the device is done. So a file
 * of any length pins no more than a few windows, and fits under a small memlock limit.
 */
#ifndef XS_FILE_H
#define XS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <exs.h>
#include "device.h"

struct domain;
struct files; /* owned by its operation */
struct piece;
struct window;

/* Everything checked, descriptors duplicated, paths opened. *length: bytes in all; *last: EXS_SHUT_WR behind
 * the last element. NULL and errno as exs_sendfile has them. */
struct files *xs_files_new(const exs_xferfile_t *vector, int count, int flags, uint64_t *length, bool *last);
/* Pieces of memory, whose uses it takes over. NULL and errno. */
struct files *xs_files_of_memory(const struct piece *pieces, int count);
/* The next bytes, at *addr to the device: 1; none now, since too many windows are in flight: 0; or -1 and
 * *error. */
int xs_files_span(struct files *files, struct domain *domain, uint64_t *addr, uint64_t *length, uint32_t *lkey,
                  struct window **window, int *error);
/* So many bytes of a window were given to the device. */
void xs_window_posted(struct window *window, uint64_t bytes);
/* The device is done with so many of a window. -1: the file has become shorter than what was sent of it. */
int xs_window_acked(struct files *files, struct window *window, uint64_t bytes, struct domain *domain);
void xs_files_free(struct files *files, struct domain *domain);

#endif
