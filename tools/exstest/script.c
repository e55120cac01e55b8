/* SPDX-License-Identifier: BSD-2-Clause */
/* A command line out of a file; see script.h. */
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 1024 };

static const char blank[] = " \t\r\n";

static int add(struct script *script, char *word)
{
    if (script->argc == WORDS_MAX) {
        errno = E2BIG;
        return -1;
    }
    script->argv[script->argc++] = word;
    return 0;
}

/* Cuts the line into words, where it is. */
static int add_line(struct script *script, char *line)
{
    line[strcspn(line, "#")] = '\0';
    for (;;) {
        line += strspn(line, blank);
        if (*line == '\0')
            return 0;
        if (add(script, line) == -1)
            return -1;
        line += strcspn(line, blank);
        if (*line != '\0')
            *line++ = '\0';
    }
}

int script_read(struct script *script, const char *name, const char *program)
{
    FILE *file = fopen(name, "re");
    int result = 0;

    if (file == NULL)
        return -1;
    *script = (struct script){.argv = calloc(WORDS_MAX + 1, sizeof(char *))};
    if (script->argv == NULL)
        result = -1;
    else
        add(script, (char *)program);
    while (result == 0) {
        char *line = NULL;
        size_t room = 0;

        if (getline(&line, &room, file) == -1) {
            free(line);
            break;
        }
        result = add_line(script, line); /* the words stay in the line */
    }
    if (ferror(file))
        result = -1;
    fclose(file);
    return result;
}
