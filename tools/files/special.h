/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * special.h - symbolic links and folders that arrive, at the server or at exs-get.
 *
 * A link is only stored: neither program ever follows one below its directory, so it can lead no later file out of that.
 */
#ifndef FILES_SPECIAL_H
#define FILES_SPECIAL_H

#include <stdint.h>
#include <sys/types.h>

#include "transfer.h"

/* Both return 0, or -1 and errno as folders_open() and folders_check_last(). name: below the directory, accepted by
 * transfer_check_path(). may_make: as for folders_open(). */
/* Replaces a file or a link of this name in one step. */
int special_make_link(int directory, const char *name, const struct transfer_header *header, const char *target,
                      uint64_t *may_make);
/* Makes the folder if it is missing, and sets its time and its permissions, as far as the folder that it is in and
 * this mask permit them; its owner keeps all of them. */
int special_make_folder(int directory, const char *name, const struct transfer_header *header, mode_t mask,
                        uint64_t *may_make);

#endif
