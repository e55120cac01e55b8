/* SPDX-License-Identifier: BSD-2-Clause */
/* leftovers.h - the temporary files of exs-serve, whose names no client can choose, and those that an earlier server
 * left behind when it was killed. */
#ifndef FILES_LEFTOVERS_H
#define FILES_LEFTOVERS_H

enum { LEFTOVERS_NAME = 32 }; /* bytes of a temporary name, with its end */

void leftovers_name(char out[LEFTOVERS_NAME], unsigned number);
/* Removes them from the directory; and from all folders below it, if an earlier server has marked it. Other file
 * systems that are mounted there are searched, too; symbolic links are not followed, and a folder that another
 * exs-serve serves is left alone. 0, or -1 and errno: the directory itself could not be read. */
int leftovers_remove(int directory);
/* Marks the directory: temporary files are in folders below it from now on. */
void leftovers_mark(int directory);
/* They were all removed. */
void leftovers_unmark(int directory);

#endif
