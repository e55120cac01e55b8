/* SPDX-License-Identifier: BSD-2-Clause */
/* script.c - reads a command line from a file; see script.h. */
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 1024, BYTES_MAX = 64 << 10 };

static const char blank[] = " \t\r";

static int add_word(struct script *script, char *word)
{
    if (script->argc == WORDS_MAX) {
        errno = E2BIG;
        return -1;
    }
    script->argv[script->argc++] = word;
    return 0;
}

/* Splits the line into words in place. */
static int add_line(struct script *script, char *line)
{
    line[strcspn(line, "#")] = '\0';
    for (;;) {
        line += strspn(line, blank);
        if (*line == '\0')
            return 0;
        if (add_word(script, line) == -1)
            return -1;
        line += strcspn(line, blank);
        if (*line != '\0')
            *line++ = '\0';
    }
}

/* Returns the contents of the file as a string, or NULL and errno. A file that is longer than any command line is an
 * error. */
static char *read_all(FILE *file)
{
    char *text = malloc(BYTES_MAX + 1);
    size_t length;

    if (text == NULL)
        return NULL;
    length = fread(text, 1, BYTES_MAX + 1, file);
    if (!ferror(file) && length <= BYTES_MAX && memchr(text, '\0', length) == NULL) {
        text[length] = '\0';
        return text;
    }
    if (!ferror(file))
        errno = length > BYTES_MAX ? E2BIG : EINVAL;
    free(text);
    return NULL;
}

/* Adds the words of all lines. The words stay in the buffer `line`. */
static int add_lines(struct script *script, char *line)
{
    char *next;

    for (; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (add_line(script, line) == -1)
            return -1;
    }
    return 0;
}

int script_read(struct script *script, const char *name, const char *program)
{
    FILE *file = fopen(name, "re");
    char *text = NULL;
    int result = -1;

    if (file == NULL)
        return -1;
    *script = (struct script){.argv = calloc(WORDS_MAX + 1, sizeof(char *))};
    if (script->argv != NULL)
        text = read_all(file);
    if (text != NULL) {
        add_word(script, (char *)program);
        result = add_lines(script, text);
    }
    fclose(file);
    return result;
}
