/* SPDX-License-Identifier: BSD-2-Clause */
/* document.c - prints the table as a list (-l, -t) or as a page of documentation (--markdown). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "conformance.h"

/* Returns the name of an errno of the table. */
static const char *errno_name(int error)
{
#define NAME(error)                                                                                            \
    {                                                                                                          \
        error, #error                                                                                          \
    }
    static const struct {
        int error;
        const char *name;
    } known[] = {
        NAME(EPERM),        NAME(EBADF),         NAME(EAGAIN),      NAME(EACCES),       NAME(EFAULT),
        NAME(EBUSY),        NAME(EINVAL),        NAME(EMFILE),      NAME(EFBIG),        NAME(EPIPE),
        NAME(ENODEV),       NAME(EALREADY),      NAME(ECHILD),      NAME(EOPNOTSUPP),   NAME(EAFNOSUPPORT),
        NAME(EADDRINUSE),   NAME(EADDRNOTAVAIL), NAME(ECONNRESET),  NAME(ENOTCONN),     NAME(ETIMEDOUT),
        NAME(ECONNREFUSED), NAME(ENOENT),        NAME(EISDIR),      NAME(ENAMETOOLONG), NAME(ENOTDIR),
        NAME(ERANGE),       NAME(ELOOP),         NAME(ENOPROTOOPT), NAME(EDOM),         NAME(EINTR),
        NAME(ENXIO),        NAME(EISCONN),       NAME(EINPROGRESS),
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].error == error)
            return known[i].name;
    return "?";
}

const char *expected_name(const struct group *group, const struct row *row, char *buffer, size_t size)
{
    if (row->expected != 0)
        return row->expected == EOPNOTSUPP && strncmp(group->function, "exs_init", 8) == 0
                   ? "ENOTSUP"
                   : errno_name(row->expected);
    snprintf(buffer, size, "OK_%s", group->function);
    for (char *c = buffer; *c != 0; c++)
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    return buffer;
}

static const char *modes_name(const struct row *row)
{
    switch (row->modes) {
    case BLOCKING:
        return "blocking";
    case NONBLOCKING:
        return "non-blocking";
    default:
        return "blocking,non-blocking";
    }
}

void document_list(const struct options *options)
{
    char name[40];

    for (int g = 0; groups[g] != NULL; g++) {
        for (int i = 0; options_want_group(options, groups[g]) && i < groups[g]->rows; i++) {
            const struct row *row = &groups[g]->row[i];

            if (options_want(options, row))
                printf("%s:%d:%s:%s:%s\n", groups[g]->function, row->number,
                       expected_name(groups[g], row, name, sizeof(name)), row->call, modes_name(row));
        }
    }
}

/* ---- The page -------------------------------------------------------------------------------------------- */

static int count(const struct group *group, enum origin origin)
{
    int rows = 0;

    for (int i = 0; i < group->rows; i++)
        rows += group->row[i].origin == origin;
    return rows;
}

/* Prints the numbers of the thesis's tests: "1, 3-5". */
static void numbers(const struct group *group)
{
    const char *before = "";

    for (int i = 0; i < group->rows; i++) {
        int first = group->row[i].number, last = first;

        if (group->row[i].origin != THESIS)
            continue;
        while (i + 1 < group->rows && group->row[i + 1].origin == THESIS &&
               group->row[i + 1].number == last + 1)
            last = group->row[++i].number;
        if (first == last)
            printf("%s%d", before, first);
        else
            printf("%s%d-%d", before, first, last);
        before = ", ";
    }
}

static void overview(void)
{
    int sum[3] = {0};

    puts("| function | section | the thesis's numbers | tests of the thesis | its unimplemented tests | ours | "
         "all |\n"
         "|---|---|---|---|---|---|---|");
    for (int g = 0; groups[g] != NULL; g++) {
        const struct group *group = groups[g];

        printf("| %s | %s | ", group->function, group->section != NULL ? group->section : "none");
        numbers(group);
        printf(" | %d | %d | %d | %d |\n", count(group, THESIS), count(group, UNIMPLEMENTED),
               count(group, OURS), group->rows);
        for (int origin = THESIS; origin <= OURS; origin++)
            sum[origin] += count(group, (enum origin)origin);
    }
    printf("| all | | | %d | %d | %d | %d |\n", sum[THESIS], sum[UNIMPLEMENTED], sum[OURS],
           sum[THESIS] + sum[UNIMPLEMENTED] + sum[OURS]);
}

/* Prints the text of a table cell. A bar is escaped, because it would end the cell. */
static void cell(const char *text)
{
    for (; *text != 0; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

static void section(const struct group *group)
{
    static const char *const origins[] = {"thesis", "thesis, unimplemented", "ours"};
    char name[40];

    printf("\n## %s\n\n", group->function);
    if (group->section != NULL)
        printf("Section %s. ", group->section);
    printf("Needs:");
    for (int i = 0; group->prerequisite[i] != NULL; i++)
        printf("%s %s", i > 0 ? "," : "", group->prerequisite[i]);
    puts(group->prerequisite[0] == NULL ? " nothing.\n" : ".\n");
    puts("| test | expected | call | blocking | non-blocking | from | note |\n|---|---|---|---|---|---|---|");
    for (int i = 0; i < group->rows; i++) {
        const struct row *row = &group->row[i];

        printf("| %d | %s | `", row->number, expected_name(group, row, name, sizeof(name)));
        cell(row->call);
        printf("` | %s | %s | %s | ", row->modes & BLOCKING ? "yes" : "no",
               row->modes & NONBLOCKING ? "yes" : "no", origins[row->origin]);
        cell(row->note != NULL ? row->note : "");
        puts(" |");
    }
}

void document_markdown(void)
{
    puts("# The conformance tests\n\n"
         "Written by `exs-conformance --markdown` from the table that it runs; `make check` compares.\n\n"
         "The tests of M. Renke's thesis on UNH EXS (2016), appendix A, in the order in which they run. A test "
         "that\n"
         "the thesis numbers keeps its number, but for numbers that it gives twice; those that it lists "
         "without an\n"
         "implementation follow, then this library's own. Where an error is expected, the test also proves "
         "that no\n"
         "event was posted, by `poll` on `exs_qfd` and by `exs_qdequeue`, and that the socket still does what "
         "it did.\n"
         "To add a test, add a row to the table of its function in check/conformance and the body that it "
         "names.\n"
         "OK_... stands for success. [in brackets]: the situation. BAD_FLAG is 2,\n"
         "MSG_OOB, EXS_UNSIGNALED where it is invalid, and all bits; BAD_FD is -1 and a number that is not "
         "open.\n");
    overview();
    for (int g = 0; groups[g] != NULL; g++)
        section(groups[g]);
}
