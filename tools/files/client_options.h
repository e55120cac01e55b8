/* SPDX-License-Identifier: BSD-2-Clause */
/* client_options.h - the command line of exs-put and exs-get: what both are asked, and beside it what is each
 * one's own. */
#ifndef FILES_CLIENT_OPTIONS_H
#define FILES_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "account.h"

struct client_option { /* a line of --help */
    int letter;
    const char *name; /* the long one */
    const char *word; /* what comes behind it; NULL: nothing does */
    const char *text;
};

struct client_program { /* static, and the program's */
    const char *name;
    const char *operands;            /* as usage shows them, what comes behind the options */
    const struct client_option *own; /* up to CLIENT_OPTIONS_OWN of them, in the order of --help */
    size_t own_count;
    const char *last; /* line of --help; NULL: none */
    /* One of own was found. What it can't understand ends the process. */
    void (*take)(int letter, const char *word, void *settings);
};

enum { CLIENT_OPTIONS_OWN = 8 };

struct client_options { /* what both are asked */
    const char *host, *port;
    int patience; /* seconds that the server may be silent; 0: for ever */
    enum account_form form;
    bool quiet;
};

/* Everything up to the operands, which begin at optind. Ends the process where the command line is wrong (2),
 * or only asks for something (0). */
void client_options_read(const struct client_program *program, int argc, char **argv,
                         struct client_options *options, void *settings);

#endif
