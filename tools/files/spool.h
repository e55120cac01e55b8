/* SPDX-License-Identifier: BSD-2-Clause */
/* spool.h - standard input as a file that can be read at any offset, and whose size is known. */
#ifndef FILES_SPOOL_H
#define FILES_SPOOL_H

/* Whether this file, whose size is 0, contains bytes, as files in /proc do. Returns -1 and errno if it cannot be
 * read. */
int spool_hides_bytes(int fd);

/* Copies all bytes of a descriptor to an unnamed file in the folder TMPDIR (or /tmp). Returns the descriptor of the
 * copy, or -1 and errno. */
int spool_copy(int from);
/* Returns a descriptor of standard input if that is a file at offset 0, else of a copy, see spool_copy(); or -1 and
 * errno. */
int spool_open(void);

#endif
