/* SPDX-License-Identifier: BSD-2-Clause */
/* client_options.h - the command line of exs-put and exs-get: the common options, and those of each program. */
#ifndef FILES_CLIENT_OPTIONS_H
#define FILES_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "account.h"

struct client_option { /* a line of --help */
    int letter;        /* or a number of at least CLIENT_LONG */
    const char *name;  /* of the long option */
    const char *word;  /* its argument in --help; NULL: no argument */
    const char *text;
};

struct client_program { /* static data of the program */
    const char *name;
    const char *operands;            /* in the usage line, after the options */
    const struct client_option *own; /* up to CLIENT_OPTIONS_OWN of them, in the order of --help */
    size_t own_count;
    const char *last; /* last line of --help; NULL: none */
    /* Callback for each option of `own`. Exits the process if the argument is invalid. */
    void (*take)(int letter, const char *word, void *settings);
};

enum {
    CLIENT_OPTIONS_OWN = 12,
    CLIENT_LONG = 256, /* options with this `letter` or a larger number have only a long name */
    CLIENT_LINKS = CLIENT_LONG,
    CLIENT_HIDDEN,
    CLIENT_DIRS
};

struct client_options { /* the common options */
    const char *host, *port;
    int patience; /* timeout in seconds without data from the server; 0: no limit */
    enum account_form form;
    bool quiet;
};

/* Parses all options; the operands begin at optind. Exits with status 2 if the command line is invalid, with 0 after
 * --help or --version. */
void client_options_read(const struct client_program *program, int argc, char **argv,
                         struct client_options *options, void *settings);

#endif
