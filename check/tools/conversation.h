/* SPDX-License-Identifier: BSD-2-Clause */
/* conversation.h - the server's side of the file transfer, without a network, and what a test says to it. */
#ifndef CHECK_CONVERSATION_H
#define CHECK_CONVERSATION_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include "tools/files/intake.h"
#include "tools/files/kept.h"

/* Of the test that runs: made before it, and gone with what is in it afterwards. */
extern char folder[];
extern const struct store_limits limits; /* of the store */
extern struct store store;
extern struct intake intake;
extern struct sockaddr_storage client; /* the address that the intake knows */

/* A whole conversation about one file; the caller may damage it. */
struct message {
    unsigned char bytes[8192];
    size_t length, data_at, digest_at;
};

struct message compose_with(const struct transfer_header *details, const char *name, size_t name_length,
                            const char *data, size_t size);
struct message compose(const char *name, size_t name_length, const char *data, size_t size);
/* The same as a client of version 1 says it. */
struct message as_version_1(struct message m);
/* Feeds in pieces, to the first reply; returns the bytes taken. */
size_t feed(const struct message *m, size_t piece);
void expect_reply(enum transfer_status status);
void expect_stored(const char *name, const char *data, size_t size);
void expect_absent(const char *name);
struct stat status_of(const char *name);
/* After a refusal whatever comes is taken, dropped and not answered. */
void expect_refused(struct message *m, enum transfer_status status);

/* The tests of a program: the case that they are added to, then its exit status. Once in a process. */
TCase *conversations(const char *suite);
int conversations_run(void);

#endif
