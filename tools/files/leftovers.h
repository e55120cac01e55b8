/* SPDX-License-Identifier: BSD-2-Clause */
/* leftovers.h - the names of exs-serve's temporary files, which no client can choose, and the removal of those that a
 * killed server has not removed. */
#ifndef FILES_LEFTOVERS_H
#define FILES_LEFTOVERS_H

enum { LEFTOVERS_NAME = 32 }; /* bytes of a temporary name, with its terminating 0 */

void leftovers_name(char out[LEFTOVERS_NAME], unsigned number);
/* Removes temporary files from the directory and, if an earlier server has marked it, from all folders below it. Other
 * file systems mounted there are searched, too. Symbolic links are not followed, and a folder that another exs-serve
 * serves is skipped. Returns 0, or -1 and errno if the directory itself could not be read. */
int leftovers_remove(int directory);
/* Marks the directory: from now on folders below it may contain temporary files. */
void leftovers_mark(int directory);
/* Removes the mark, after all of these files were removed. */
void leftovers_unmark(int directory);

#endif
