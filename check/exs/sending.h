/* SPDX-License-Identifier: BSD-2-Clause */
/* sending.h - a pair, and a file in a folder that its client sends: what the tests of exs_sendfile share. */
#ifndef CHECK_SENDING_H
#define CHECK_SENDING_H

#include "check/support/files.h"

#define FILE_LENGTH ((size_t)300001)
#define FILE_SEED 77

extern struct pair pair;
extern char folder[100], path[200]; /* path: of the last new_file */
extern int map_errno;               /* that mapping a file fails with; 0: it does not */
extern int file;                    /* open, FILE_LENGTH bytes of pattern, named "file" */

/* Fixtures. */
void folder_open(void);
void folder_open_mapped(void);
void folder_close(void);  /* and the pair, */
void folder_remove(void); /* or without */

int new_file(const char *name, off_t length); /* one more, of zeroes */
void post_file(exs_xferfile_t *vector, int count, int flags);
void file_was_sent(const exs_xferfile_t *vector, int count, off_t length);
char *receive(size_t length);
void receive_part(uint64_t at, size_t length); /* of the file */

#endif
