/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fetch_fixture.h - an exs-get on a made-up library (fake_exs.h), in a folder of its own, and a server that
 * says what a test has it say: what the tests of fetching share.
 */
#ifndef TOOLS_FETCH_FIXTURE_H
#define TOOLS_FETCH_FIXTURE_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "tools/files/wishes.h"

enum { LARGE = LANDING_KEEP + 100 };

extern int directory; /* where files arrive */
extern struct fetch fetch;

/* ---- What a server says ---- */

extern unsigned char stream[LARGE + 4096];
extern size_t length; /* of that */

void say_reply(unsigned status, const void *text, size_t text_length);
/* A file of such a size, from this byte on; of noise(), and with its digest. */
void say_coming(uint64_t size, uint64_t from);
void say_file(size_t size, size_t from);
const unsigned char *noise(void); /* LARGE bytes */
void say_entry(unsigned kind, uint64_t size, const char *name);
/* From now on that is what comes. */
void serve(void);

/* ---- What is there ---- */

void make(const char *name, size_t size); /* with noise() in it */
off_t size_of(const char *name);          /* -1: it is not there */
void expect_file(const char *name, size_t size);

/* ---- The program ---- */

/* It fetches a file: 0, or -1 and errno. */
int get(const char *name);
extern uint64_t kept; /* bytes of what it did not get whole */
/* "file" doesn't come, for this reason, and the conversation is over. */
void expect_failure(const char *want);

TCase *fetch_case(Suite *suite, const char *name);

#endif
