/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * special.h - creates symbolic links and folders that exs-serve or exs-get has received.
 *
 * Neither program follows links below its directory, so a received link cannot redirect a later file to a place outside
 * of it.
 */
#ifndef FILES_SPECIAL_H
#define FILES_SPECIAL_H

#include <stdint.h>
#include <sys/types.h>

#include "transfer.h"

/* Both functions return 0, or -1 and errno, see folders_open() and folders_check_last(). name: relative to the
 * directory, accepted by transfer_check_path(). may_make: as for folders_open(). */
/* Creates the link; atomically replaces a file or a link of this name. */
int special_make_link(int directory, const char *name, const struct transfer_header *header, const char *target,
                      uint64_t *may_make);
/* Creates the folder if it is missing, and sets its time and its permissions, as far as its parent folder and this mask
 * permit them. Its owner always has all permissions. */
int special_make_folder(int directory, const char *name, const struct transfer_header *header, mode_t mask,
                        uint64_t *may_make);

#endif
