/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.h - the command line of exs-serve. */
#ifndef FILES_SETTINGS_H
#define FILES_SETTINGS_H

#include "store.h"

enum { CONNECTIONS_MAX = 256 }; /* each has 4 MiB of receive buffers; further ones wait in the backlog */

struct settings {
    const char *host, *port, *directory;
    struct store_limits limits;
    int patience;  /* seconds */
    uint64_t rate; /* bytes a second */
    int of_one;    /* maximum connections of one host */
};

/* Parses the command line. Exits if it is invalid, or after --help or --version. */
struct settings settings_read(int argc, char **argv);

#endif
