/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file.h - the source of the bytes of an exs_sendfile: ranges of files, and memory. It is also the source of an
 * exs_sendmsg, whose segments are elements in memory. Neighbouring short elements of memory are copied into one bounce
 * buffer.
 *
 * Files are sent one window at a time. If the device can read the file itself (reg_file), a window is a registration
 * of a part of the file. Otherwise a window is mapped, registered, posted, and unmapped when the device has completed
 * it. A short range is read into a bounce buffer. A file of any length therefore pins only a few windows, and can be
 * sent under a small memlock limit.
 */
#ifndef XS_FILE_H
#define XS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <exs.h>
#include "core/device/device.h"

struct domain;
struct files; /* owned by its operation */
struct piece;
struct window;

/* Checks a vector, duplicates descriptors and opens paths. Sets *length to the total number of bytes, and *last to
 * whether the last element has EXS_SHUT_WR. Returns NULL and an errno of exs_sendfile on failure. */
struct files *xs_files_new(const exs_xferfile_t *vector, int count, int flags, uint64_t *length, bool *last);
/* Makes a source of pieces of memory; takes over their references to regions. Returns NULL and errno on failure. */
struct files *xs_files_of_memory(const struct piece *pieces, int count);
/* Finds the next bytes to send. Returns 1 and sets *addr (the address in the registration), *length (bytes),
 * *lkey and *window. Returns 0 if the maximum number of windows is in flight: the caller tries
 * again after xs_window_acked(). Returns -1 on failure, with the errno in *error. */
int xs_files_span(struct files *files, struct domain *domain, uint64_t *addr, uint64_t *length, uint32_t *lkey,
                  struct window **window, int *error);
/* Counts bytes of a window that were given to the device. */
void xs_window_posted(struct window *window, uint64_t bytes);
/* Counts bytes of a window that the device has completed. Returns 0, or -1 if the file has become shorter than the
 * bytes sent. */
int xs_window_acked(struct files *files, struct window *window, uint64_t bytes, struct domain *domain);
/* Closes all windows and elements, and frees the source. */
void xs_files_free(struct files *files, struct domain *domain);

#endif
