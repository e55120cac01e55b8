/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fetch_fixture.h - common parts of the tests of exs-get: a replacement of the library (fake_exs.h), a temporary
 * directory, and a simulated server that sends the bytes which a test composes.
 */
#ifndef TOOLS_FETCH_FIXTURE_H
#define TOOLS_FETCH_FIXTURE_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "tools/files/wishes.h"

enum { LARGE = LANDING_KEEP + 100 };

extern struct recent recent; /* below the directory */
extern int directory; /* descriptor of the directory in which files are stored */
extern struct fetch fetch;

/* ---- The server's data ---- */

extern unsigned char stream[LARGE + 4096];
extern size_t length; /* bytes of `stream` */

void say_reply(unsigned status, const void *text, size_t text_length);
/* say_coming() appends the reply for a file of this size; say_file() also its data, which are those of noise(), from
 * offset `from`, and its digest. */
void say_coming(uint64_t size, uint64_t from);
void say_file(size_t size, size_t from);
const unsigned char *noise(void); /* LARGE bytes */
void say_entry(unsigned kind, uint64_t size, const char *name);
/* Makes the client receive `stream`. */
void serve(void);

/* ---- Local files ---- */

void make(const char *name, size_t size); /* creates a file with the data of noise() */
off_t size_of(const char *name);          /* -1: the file does not exist */
void expect_file(const char *name, size_t size);

/* ---- The program ---- */

/* Fetches a file. Returns 0, or -1 and errno. */
int get(const char *name);
extern uint64_t kept; /* bytes of an incomplete file that get() has kept */
/* Checks that fetching "file" fails with this error, and that the connection is closed. */
void expect_failure(const char *want);

TCase *fetch_case(Suite *suite, const char *name);

#endif
