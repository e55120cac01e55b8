/* SPDX-License-Identifier: BSD-2-Clause */
/* files.h - files for tests: a temporary directory, elements of file vectors, checks of a file's contents. */
#ifndef CHECK_FILES_H
#define CHECK_FILES_H

#include "support.h"

exs_xferfile_t by_fd(int fd, off_t offset, size_t length);
exs_xferfile_t by_path(const char *path, off_t offset, size_t length);
exs_xferfile_t by_memory(void *base, size_t length, exs_mhandle_t region);

struct folder { /* in TMPDIR */
    char path[100];
};

void folder_make(struct folder *folder);
void folder_clear(struct folder *folder); /* with all files in it */
/* Returns the path of a file in it; valid until the next call. */
const char *folder_path(const struct folder *folder, const char *name);
/* Creates a file of `length` zero bytes, open for reading and writing. */
int folder_file(const struct folder *folder, const char *name, off_t length);

/* file_watch_opens() returns a descriptor that records each open of this file, until it is closed; file_was_opened()
 * returns whether there was one. */
int file_watch_opens(const char *path);
bool file_was_opened(int watch);

void file_fill(int fd, off_t offset, size_t length, unsigned char value);
/* Expects that the file has this length; that its bytes from `offset` on are those of the pattern; or have this
 * value. */
void file_has_length(int fd, off_t length);
void file_has_pattern(int fd, off_t offset, size_t length, uint64_t seed, uint64_t at);
void file_has_value(int fd, off_t offset, size_t length, unsigned char value);

#endif
