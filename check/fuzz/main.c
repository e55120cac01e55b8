/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main.c - the main function of a harness that is built without libFuzzer. It runs the harness with each file that the
 * command line names.
 *
 * So every build has the harnesses, and make check runs them on their corpora.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check/fuzz/input.h"

#define MOST 65536 /* bytes of an input, at most */

static bool replay(const char *path)
{
    FILE *file = fopen(path, "re");
    uint8_t *bytes = malloc(MOST), *exact = NULL;
    size_t length = 0;

    if (file != NULL && bytes != NULL) {
        length = fread(bytes, 1, MOST, file);
        exact = realloc(bytes, length + !length); /* so that AddressSanitizer sees a read beyond the input */
    }
    if (exact == NULL)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    else
        LLVMFuzzerTestOneInput(exact, length);
    free(exact != NULL ? exact : bytes);
    if (file != NULL)
        fclose(file);
    return exact != NULL;
}

int main(int argc, char **argv)
{
    bool all = argc > 1;

    if (argc == 1)
        fprintf(stderr, "usage: %s FILE...\n", argv[0]);
    for (int i = 1; i < argc; i++)
        all = replay(argv[i]) && all;
    return all ? EXIT_SUCCESS : EXIT_FAILURE;
}
