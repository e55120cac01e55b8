/* SPDX-License-Identifier: BSD-2-Clause */
/* inlet_fixture.h - an exs-serve's connections on a made-up library (fake_exs.h), in a folder of its own, and
 * what it says on standard error: what the tests of inlets share. */
#ifndef TOOLS_INLET_FIXTURE_H
#define TOOLS_INLET_FIXTURE_H

#include "tools/files/inlet.h"

enum { PATIENCE = 60, RATE = 1000, MOST = 16, OF_ONE = 3, REFUSED = 16 };

extern struct inlets inlets;
extern int asked_again; /* for inlets_read */

void inlets_setup(void);
/* Everything has come back. */
void inlets_teardown(void);
/* A connection of socket number sock, from there, or from one of many hosts. */
void open_at(int sock, const char *address);
void open_from(int sock, unsigned host);
void pass(int seconds);
/* How often was this said? */
int count_said(const char *what);
void expect_open(int sock);

#endif
