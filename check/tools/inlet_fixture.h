/* SPDX-License-Identifier: BSD-2-Clause */
/* inlet_fixture.h - common parts of the tests of exs-serve's connections: a replacement of the library (fake_exs.h), a
 * temporary directory, and the captured standard error. */
#ifndef TOOLS_INLET_FIXTURE_H
#define TOOLS_INLET_FIXTURE_H

#include "tools/files/inlet.h"

enum { PATIENCE = 60, RATE = 1000, MOST = 16, OF_ONE = 3, REFUSED = 16 };

extern struct inlets inlets;
extern int asked_again; /* calls of inlets.again */

void inlets_setup(void);
/* Closes all connections, and checks that all memory was released. */
void inlets_teardown(void);
/* Opens a connection with this socket number: open_at() from an address, open_from() from the host with this number. */
void open_at(int sock, const char *address);
void open_from(int sock, unsigned host);
void pass(int seconds);
/* Returns how often this text is in the captured standard error. */
int count_said(const char *what);
void expect_open(int sock);

#endif
