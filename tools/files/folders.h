/* SPDX-License-Identifier: BSD-2-Clause */
/* folders.h - the folder that a name with slashes in it is in, below a directory: found one component after the
 * other, so that no symbolic link is followed, whoever puts one there meanwhile. */
#ifndef FILES_FOLDERS_H
#define FILES_FOLDERS_H

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>

#define FOLDERS_ENOUGH E2BIG /* an errno that no file system has: EDQUOT is that of a user's quota */

/* A descriptor of the folder; *last is what is behind the last slash. name: each of its components is checked
 * by transfer_bad_name. Folders that are missing are made, and taken from *may_make; without that they are not.
 * -1 and errno: ENOTDIR where anything else is in the way, FOLDERS_ENOUGH where no more may be made. */
int folders_open(int directory, const char *name, const char **last, uint64_t *may_make);
/* A descriptor to read the regular file of this name in a folder, and what it is. -1 and errno: EISDIR where it
 * is a folder, ENOENT where it is neither; a device is not even opened, which may do something by itself. */
int folders_open_file(int folder, const char *name, struct stat *status);
/* What the directory, and each folder on the way to the name, has in it is on the disk. 0, or -1 and errno. */
int folders_sync(int directory, const char *name);

#endif
