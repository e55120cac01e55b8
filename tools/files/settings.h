/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.h - the command line of exs-serve. */
#ifndef FILES_SETTINGS_H
#define FILES_SETTINGS_H

#include "store.h"

enum { CONNECTIONS_MAX = 256 }; /* each holds 4 MiB of receive buffers; later ones wait in the backlog */

struct settings {
    const char *host, *port, *directory;
    struct store_limits limits;
    int patience;  /* seconds */
    uint64_t rate; /* bytes a second */
    int of_one;    /* connections that one address may have */
};

/* Ends the process where there is nothing to be served, or something wrong. */
struct settings settings_read(int argc, char **argv);

#endif
