/* SPDX-License-Identifier: BSD-2-Clause */
/* account.h - what exs-put and exs-get say of their files: failures as lines on standard error; and on standard
 * output nothing, lines, or lines of JSON. */
#ifndef FILES_ACCOUNT_H
#define FILES_ACCOUNT_H

#include <stdint.h>
#include <stdio.h>

#include "transfer.h"

enum account_form { ACCOUNT_SHORT, ACCOUNT_LINES, ACCOUNT_JSON };

/* A file that is there now. */
struct account_file {
    const char *path;
    uint64_t size, resumed; /* bytes; of those, what was there from an earlier attempt */
    double seconds;
    const unsigned char *digest; /* TRANSFER_DIGEST bytes */
};

/* Owned by main. */
struct account {
    const char *program;
    enum account_form form;
    FILE *out;                  /* standard output, unless a file goes there */
    unsigned long done, failed; /* files */
    uint64_t bytes, moved;      /* of those that are done; without what was there from earlier attempts */
    double started;             /* seconds, of the monotonic clock */
};

void account_begin(struct account *account, const char *program, enum account_form form);
void account_done(struct account *account, const struct account_file *file);
void account_failed(struct account *account, const char *path, const char *why);
/* It was not tried, since the server can't be reached, which is said for all at once: in JSON a line. */
void account_left_out(struct account *account, const char *path);
/* Of all files. device: what carried the last connection. */
void account_end(const struct account *account, const char *device);
/* The last: all that was printed has to have got to where standard output goes. -1: it has not, which is said.
 */
int account_flush(const struct account *account);

#endif
