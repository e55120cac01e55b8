/* SPDX-License-Identifier: BSD-2-Clause */
/* account.h - what exs-put and exs-get print about their files: failures as lines on standard error; on standard output
 * nothing, lines, or lines of JSON. */
#ifndef FILES_ACCOUNT_H
#define FILES_ACCOUNT_H

#include <stdint.h>
#include <stdio.h>

#include "transfer.h"

enum account_form { ACCOUNT_SHORT, ACCOUNT_LINES, ACCOUNT_JSON };

/* A file that was transferred. */
struct account_file {
    const char *path;
    uint64_t size, resumed; /* bytes; resumed: those from an earlier attempt */
    double seconds;
    const unsigned char *digest; /* TRANSFER_DIGEST bytes */
};

/* Owned by main. */
struct account {
    const char *program;
    enum account_form form;
    FILE *out;                           /* standard output, unless a file is written there */
    unsigned long done, failed, skipped; /* files */
    uint64_t bytes, moved;               /* of the files done; moved: without those from earlier attempts */
    double started;                      /* seconds of the monotonic clock */
};

void account_begin(struct account *account, const char *program, enum account_form form);
void account_done(struct account *account, const struct account_file *file);
/* The file was not transferred because the target has it already. */
void account_skipped(struct account *account, const char *path, uint64_t size);
void account_failed(struct account *account, const char *path, const char *why);
/* The file was not tried because the server is unreachable. Prints a line only in JSON; the reason is printed once. */
void account_left_out(struct account *account, const char *path);
/* Prints the totals. device: that of the last connection. */
void account_end(const struct account *account, const char *device);
/* To be called last: flushes standard output. Returns -1 if output could not be written, after it has reported this. */
int account_flush(const struct account *account);

#endif
