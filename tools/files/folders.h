/* SPDX-License-Identifier: BSD-2-Clause */
/* folders.h - opens the folder of a path below a directory: one component after the other, so that symbolic links are
 * not followed, even if another process creates one at the same time. */
#ifndef FILES_FOLDERS_H
#define FILES_FOLDERS_H

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>

#define FOLDERS_ENOUGH E2BIG /* an errno that file systems do not return, unlike EDQUOT */

/* Returns a descriptor of the folder, and sets *last to the part of name after the last slash. transfer_bad_name() must
 * have accepted each component. Creates missing folders and decrements *may_make for each; if may_make is NULL, creates
 * none. Returns -1 and errno on failure: ENOTDIR if a component is not a folder, FOLDERS_ENOUGH if *may_make is 0. */
int folders_open(int directory, const char *name, const char **last, uint64_t *may_make);
/* Like folders_open(), but returns the last folder on the path that exists, and sets *rest to the remaining part of
 * name. */
int folders_reach(int directory, const char *name, const char **rest);
/* Checks that a rename may give this name, which has no slash, to a file or a link. Returns 0, or -1 and errno: EISDIR
 * if the name is that of a folder, ENODEV if it is that of a device or a pipe. */
int folders_check_last(int folder, const char *last);
/* Opens the regular file of this name for reading, and sets *status. Returns -1 and errno on failure: EISDIR if it is a
 * folder, ENOENT if it is neither a file nor a folder. A device is never opened, because that can have side effects. */
int folders_open_file(int folder, const char *name, struct stat *status);
/* Calls fsync() for the directory and each folder on the path to the name. Returns 0, or -1 and errno. */
int folders_sync(int directory, const char *name);

#endif
