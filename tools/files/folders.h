/* SPDX-License-Identifier: BSD-2-Clause */
/* folders.h - opens the folder that a path leads to, below a directory: one component after the other, so that no
 * symbolic link is followed, even if another process creates one at the same time. */
#ifndef FILES_FOLDERS_H
#define FILES_FOLDERS_H

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>

#define FOLDERS_ENOUGH E2BIG /* an errno that file systems do not return, unlike EDQUOT */

/* Returns a descriptor of the folder; *last is the part of name behind the last slash. transfer_bad_name() must have
 * accepted each component. Creates missing folders and decrements *may_make for each; may_make NULL: creates none. -1
 * and errno: ENOTDIR if a component is not a folder, FOLDERS_ENOUGH if *may_make is 0. */
int folders_open(int directory, const char *name, const char **last, uint64_t *may_make);
/* Like folders_open(), but goes only as far as there are folders. *rest is the part of name from there. */
int folders_reach(int directory, const char *name, const char **rest);
/* Whether a rename may give this name, without a slash, to a file or a link: 0, or -1 and errno: EISDIR or ENODEV if
 * the name belongs to a folder, a device or a pipe. */
int folders_check_last(int folder, const char *last);
/* Opens the regular file of this name for reading, and returns its status. -1 and errno: EISDIR if it is a folder,
 * ENOENT if it is neither. A device is never opened, because opening it can have side effects. */
int folders_open_file(int folder, const char *name, struct stat *status);
/* Calls fsync() for the directory and each folder on the path to the name. 0, or -1 and errno. */
int folders_sync(int directory, const char *name);

#endif
