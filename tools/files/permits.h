/* SPDX-License-Identifier: BSD-2-Clause */
/* permits.h - the permissions that a new file in a folder may have: those of the folder's default ACL or, if it has
 * none, those that the umask permits, as for open(2). */
#ifndef FILES_PERMITS_H
#define FILES_PERMITS_H

#include <sys/types.h>

/* folder: a descriptor, which may be O_PATH. mask: as in umask(2). Returns a subset of 0777. */
mode_t permits_in(int folder, mode_t mask);

#endif
