/* SPDX-License-Identifier: BSD-2-Clause */
/* wishes.h - the list of files that exs-get requests ("wishes"): those on its command line, and those that a server
 * lists in their folders. */
#ifndef FILES_WISHES_H
#define FILES_WISHES_H

#include <stdbool.h>
#include <stdio.h>

#include "fetch.h"
#include "picks.h"

/* Removes the slashes at both ends of name, in place. "/", the served directory, becomes the empty name. */
void wishes_plain(char *name);
/* Adds the file with this name, which wishes_plain() has processed. Returns -1 and errno on failure. */
int wishes_add(struct picks *picks, const char *name);
/* Adds a file or, for a folder, all files below it. Their names begin with the name of the folder, unless that is
 * empty. On failure returns -1 and sets the client's error. */
int wishes_add_tree(struct picks *picks, struct fetch *fetch, const char *name);
/* Prints a line for each entry of a folder, or for a single file: its size and name, as text or JSON. */
int wishes_list(FILE *out, struct fetch *fetch, const char *name, bool json);

#endif
