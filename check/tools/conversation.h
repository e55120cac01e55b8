/* SPDX-License-Identifier: BSD-2-Clause */
/* conversation.h - tests of the server's side of the file transfer (tools/files/intake.h) without a network: builds the
 * bytes of a client, passes them to the intake, and checks replies and stored files. */
#ifndef CHECK_CONVERSATION_H
#define CHECK_CONVERSATION_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include "tools/files/intake.h"
#include "tools/files/kept.h"

/* The served directory of the current test. Created before the test, and removed with its contents afterwards. */
extern char folder[];
extern const struct store_limits limits; /* of the store */
extern struct store store;
extern struct intake intake;
extern struct sockaddr_storage client; /* the client's address */

/* All bytes that a client sends for one file. The test may corrupt them. */
struct message {
    unsigned char bytes[8192];
    size_t length, data_at, digest_at;
};

struct message compose_with(const struct transfer_header *details, const char *name, size_t name_length,
                            const char *data, size_t size);
struct message compose(const char *name, size_t name_length, const char *data, size_t size);
/* Converts the message to version 1 of the protocol. */
struct message as_version_1(struct message m);
/* Passes the bytes to the intake in pieces, until the first reply. Returns the number of bytes consumed. */
size_t feed(const struct message *m, size_t piece);
void expect_reply(enum transfer_status status);
void expect_stored(const char *name, const char *data, size_t size);
void expect_absent(const char *name);
struct stat status_of(const char *name);
/* Checks that the server refuses the message, and then consumes all further bytes without a reply. */
void expect_refused(struct message *m, enum transfer_status status);

/* conversations() returns the test case to which a program adds its tests; conversations_run() runs them and returns
 * the exit status. Once per process. */
TCase *conversations(const char *suite);
int conversations_run(void);

#endif
