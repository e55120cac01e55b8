/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.h - files of a test: a folder of its own, elements of file vectors, what a file holds.
 */
#ifndef CHECK_FILES_H
#define CHECK_FILES_H

#include "support.h"

exs_xferfile_t by_fd(int fd, off_t offset, size_t length);
exs_xferfile_t by_path(const char *path, off_t offset, size_t length);
exs_xferfile_t by_memory(void *base, size_t length, exs_mhandle_t region);

struct folder { /* below TMPDIR */
    char path[100];
};

void folder_make(struct folder *folder);
void folder_clear(struct folder *folder); /* with all files in it */
/* The path of a file in it, until the next such call. */
const char *folder_path(const struct folder *folder, const char *name);
/* A new file of so many zeroes, open for reading and writing. */
int folder_file(const struct folder *folder, const char *name, off_t length);

/* Notes each open of this file from now on, until the descriptor is closed. Was there one? */
int file_watch_opens(const char *path);
bool file_was_opened(int watch);

void file_fill(int fd, off_t offset, size_t length, unsigned char value);
/* It has this length; its bytes from `offset` on are these of the pattern; or are of this value. */
void file_has_length(int fd, off_t length);
void file_has_pattern(int fd, off_t offset, size_t length, uint64_t seed, uint64_t at);
void file_has_value(int fd, off_t offset, size_t length, unsigned char value);

#endif
