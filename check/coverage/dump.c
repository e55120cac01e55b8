/* SPDX-License-Identifier: BSD-2-Clause */
/* Linked into every program and library that is measured: counts are kept, too, of a process that leaves by _exit, as
 * a test's children do, that has no descriptors left, or whose calls are made to fail. */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

void __gcov_dump(void); /* gcc's, of whose gcov.h clang has none */
void __wrap__exit(int status) __attribute__((noreturn));

/* check/torture/fail.h: where nothing is preloaded, NULL. */
void torture_disarm(void) __attribute__((weak, visibility("default")));

static void widen(int what, struct rlimit *limit)
{
    if (getrlimit(what, limit) == 0) {
        limit->rlim_cur = limit->rlim_max;
        setrlimit(what, limit);
    }
}

/* Libgcov opens files and allocates by the names that the library uses. No: of a file that may not be as long as it is
 * it would write the beginning, and end the process by a signal. */
static bool let_it_write(void)
{
    struct rlimit files, length = {.rlim_max = 0};

    if (torture_disarm)
        torture_disarm();
    widen(RLIMIT_NOFILE, &files);
    widen(RLIMIT_FSIZE, &length);
    return length.rlim_max == RLIM_INFINITY;
}

/* Before libgcov's own destructors, which have a priority. */
__attribute__((destructor)) static void at_exit(void)
{
    let_it_write();
}

/* Each library and program has counts of its own. These functions are called by quick_exit, and nothing else is. */
static void at_quick_end(void)
{
    if (let_it_write())
        __gcov_dump();
}

__attribute__((constructor)) static void at_begin(void)
{
    if (at_quick_exit(at_quick_end) != 0)
        abort();
}

void __wrap__exit(int status)
{
    quick_exit(status);
}
