/* SPDX-License-Identifier: BSD-2-Clause */
/* wishes.h - the files that exs-get is to get: what its command line names, and what a server lists below that.
 */
#ifndef FILES_WISHES_H
#define FILES_WISHES_H

#include <stdbool.h>
#include <stdio.h>

#include "fetch.h"
#include "picks.h"

/* The name as a server knows it: without slashes at its ends, in name, which has room for as many bytes. All
 * that is served is /, and the name empty. */
void wishes_plain(char *name);
/* A plain name, for the file of which it is one. -1 and errno. */
int wishes_add(struct picks *picks, const char *name);
/* If it is a folder, all files in it and below, named from the folder's own name on; of all that is served,
 * from its own. -1 with the client's error filled in. */
int wishes_add_tree(struct picks *picks, struct fetch *fetch, const char *name);
/* What is in the folder: bytes and name of each, a line in out, for people or of JSON; of a file, its own. */
int wishes_list(FILE *out, struct fetch *fetch, const char *name, bool json);

#endif
