/* SPDX-License-Identifier: BSD-2-Clause */
/* spool.h - standard input as a file that can be read at any offset, and whose size is known. */
#ifndef FILES_SPOOL_H
#define FILES_SPOOL_H

/* Whether this file, whose size is 0, contains bytes, as files in /proc do. -1 and errno: it can't be read. */
int spool_hides_bytes(int fd);

/* Returns the descriptor of a copy of what there is to read, without a name, in the folder TMPDIR (or /tmp). -1 and
 * errno. */
int spool_copy(int from);
/* Returns a descriptor: of standard input itself if that is a file at offset 0, else of a copy without a name, in the
 * folder TMPDIR (or /tmp). -1 and errno. */
int spool_open(void);

#endif
