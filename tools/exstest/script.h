/* SPDX-License-Identifier: BSD-2-Clause */
/* script.h - reads a command line from a file: words between white space; # starts a comment. */
#ifndef EXSTEST_SCRIPT_H
#define EXSTEST_SCRIPT_H

struct script { /* never freed: the words are used until the program ends */
    int argc;
    char **argv; /* argv[0] is the program's name */
};

/* Returns 0, or -1 and errno. */
int script_read(struct script *script, const char *name, const char *program);

#endif
