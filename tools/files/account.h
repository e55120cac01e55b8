/* SPDX-License-Identifier: BSD-2-Clause */
/* account.h - what exs-put says of its files: failures as lines on standard error; and on standard output
 * nothing, lines, or lines of JSON. */
#ifndef FILES_ACCOUNT_H
#define FILES_ACCOUNT_H

#include <stdint.h>

#include "outlet.h"

enum account_form { ACCOUNT_SHORT, ACCOUNT_LINES, ACCOUNT_JSON };

/* Owned by main. */
struct account {
    enum account_form form;
    unsigned long sent, failed; /* files */
    uint64_t bytes;             /* of those that were sent */
    double started;             /* seconds, of the monotonic clock */
};

void account_begin(struct account *account, enum account_form form);
void account_sent(struct account *account, const struct outlet *outlet, const char *path);
void account_failed(struct account *account, const char *path, const char *why);
/* Of all files. device: what carried the last connection. */
void account_end(const struct account *account, const char *device);

#endif
