/* SPDX-License-Identifier: BSD-2-Clause */
/* server.h - the server's side of all tests. */
#ifndef EXSTEST_SERVER_H
#define EXSTEST_SERVER_H

#include "options.h"

/* Serves clients until one requests Q (quit) or a signal arrives. Returns the exit status. */
int server_run(const struct options *options);

#endif
