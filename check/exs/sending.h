/* SPDX-License-Identifier: BSD-2-Clause */
/* sending.h - a pair whose client sends a file of a directory: shared by the tests of exs_sendfile. */
#ifndef CHECK_SENDING_H
#define CHECK_SENDING_H

#include "check/support/files.h"

#define FILE_LENGTH ((size_t)300001)
#define FILE_SEED 77

extern struct pair pair;
extern char folder[100], path[200]; /* path: of the last new_file */
extern int map_errno;               /* errno of mmap on a file; 0: it succeeds */
extern int file;                    /* open, FILE_LENGTH bytes of pattern, named "file" */

/* Fixtures. */
void folder_open(void);
void folder_open_mapped(void);
void folder_close(void);  /* removes the directory and closes the pair */
void folder_remove(void); /* removes the directory */

int new_file(const char *name, off_t length); /* creates another file, of zeros */
void post_file(exs_xferfile_t *vector, int count, int flags);
void file_was_sent(const exs_xferfile_t *vector, int count, off_t length);
char *receive(size_t length);
void receive_part(uint64_t at, size_t length); /* receives and checks bytes of the file */

#endif
