/* SPDX-License-Identifier: BSD-2-Clause */
/* spool.h - standard input as a file that can be read at any place, and whose size is known. */
#ifndef FILES_SPOOL_H
#define FILES_SPOOL_H

/* Has this file, whose size is 0, bytes all the same, as those of /proc have? -1 and errno: nobody can tell, since it
 * can't be read. */
int spool_hides_bytes(int fd);

/* A descriptor: of standard input itself where that is a file at its beginning, else of a copy that has no
 * name, in the folder that TMPDIR names (or /tmp). -1 and errno. */
int spool_open(void);

#endif
