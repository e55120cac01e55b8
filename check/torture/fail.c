/* SPDX-License-Identifier: BSD-2-Clause */
/* fail.c - decides which call fails, and reports. This part of the preloaded library does not depend on the
 * calls. See fail.h. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "wrap.h"

#define GONE_NS 100000000 /* ns in which a thread that has exited disappears */
#define LATE 100          /* factor for that if there are more threads than usual */

#define HANGS 124 /* exit status */
#define FRAMES 64

static struct {
    int call; /* -1: none */
    unsigned long from;
    int error;
    bool for_good;
} aim = {.call = -1};
static _Atomic bool armed;
static _Atomic unsigned fired;
static _Atomic unsigned long counts[CALLS];
static uintptr_t base, first, last; /* libexs: load address, start and end of its code */
static int control = -1;
static _Atomic bool reports; /* report when the process exits */

void fail_say(const char *format, ...)
{
    char line[256] = "torture: ";
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line + 9, sizeof(line) - 10, format, arguments) + 9;
    va_end(arguments);
    if (length > (int)sizeof(line) - 2)
        length = sizeof(line) - 2;
    line[length++] = '\n';
    if (write(2, line, (size_t)length) < 0)
        _exit(HANGS);
}

bool fail_by_libexs(const void *place)
{
    return (uintptr_t)place >= first && (uintptr_t)place < last;
}

int fail_now(int call, const void *place)
{
    if (!fail_by_libexs(place))
        return 0;
    unsigned long number = atomic_fetch_add(&counts[call], 1) + 1;

    if (call != aim.call || !atomic_load(&armed) || number < aim.from || (!aim.for_good && number != aim.from))
        return 0;
    if (atomic_fetch_add(&fired, 1) == 0)
        fail_say("fired %#lx", (unsigned long)((uintptr_t)place - base));
    return aim.error;
}

void torture_disarm(void)
{
    atomic_store(&armed, false);
}

unsigned torture_fired(void)
{
    return atomic_load(&fired);
}

static int entries_of(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;

    if (folder == NULL)
        return -1;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static long long now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* The kernel still lists a joined thread for a moment, and longer if other threads compete for the CPU. */
static int threads_left(void)
{
    const char *usual = getenv("EXS_TORTURE_THREADS"); /* number in a run without failures */
    long long began = now();
    int most = usual != NULL ? (int)strtol(usual, NULL, 10) : 0, count = entries_of("/proc/self/task");

    while (count > 1 && now() < began + (most > 0 && count > most ? LATE : 1) * (long long)GONE_NS) {
        poll(NULL, 0, 1);
        count = entries_of("/proc/self/task");
    }
    return count;
}

void torture_report(void)
{
    static const char *const names[] = {
#define CALL(name, lasting, passing) #name,
        TORTURE_CALLS(CALL)
#undef CALL
    };

    fail_say("state %d descriptors, %d threads", entries_of("/proc/self/fd"), threads_left());
    account_report((const char *)base);
    for (int call = 0; call < CALLS; call++)
        if (atomic_load(&counts[call]) > 0)
            fail_say("count %s %lu", names[call], atomic_load(&counts[call]));
    fail_say("times %u", atomic_load(&fired));
}

/* ---- From the environment --------------------------------------------------------------------------- */

static int errno_of(const char *name)
{
    for (int error = 1; error < 134; error++)
        if (strerrorname_np(error) != NULL && strcmp(strerrorname_np(error), name) == 0)
            return error;
    return 0;
}

static void take_aim(const char *text)
{
    static const char *const names[] = {
#define CALL(name, lasting, passing) #name,
        TORTURE_CALLS(CALL)
#undef CALL
    };
    char copy[128], *rest, *name, *number, *error, *how;

    snprintf(copy, sizeof(copy), "%s", text);
    rest = copy;
    name = strsep(&rest, " ");
    number = strsep(&rest, " ");
    error = strsep(&rest, " ");
    how = rest;
    for (int call = 0; how != NULL && call < CALLS; call++)
        if (strcmp(name, names[call]) == 0)
            aim.call = call;
    aim.from = number != NULL ? strtoul(number, NULL, 10) : 0;
    aim.error = error != NULL ? errno_of(error) : 0;
    aim.for_good = how != NULL && strcmp(how, "for-good") == 0;
    if (aim.call < 0 || aim.from == 0 || aim.error == 0) {
        fail_say("BAD EXS_TORTURE is not \"call number errno once|for-good\"");
        _exit(2);
    }
}

static int find_libexs(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (strstr(info->dlpi_name, "/libexs.so") == NULL)
        return 0;
    base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            last = base + part->p_vaddr + part->p_memsz;
            first = base + part->p_vaddr;
        }
    }
    return 1;
}

static void hangs(int signal)
{
    void *frames[FRAMES];

    (void)signal;
    fail_say("BAD hangs: this is where the thread that took the alarm is");
    backtrace_symbols_fd(frames, backtrace(frames, FRAMES), 2);
    _exit(HANGS);
}

static void *obey(void *unused)
{
    char command;

    while (read(control, &command, 1) == 1) {
        torture_disarm();
        atomic_store(&reports, true);
        if (write(control + 1, &command, 1) != 1)
            break;
    }
    return unused;
}

static void watch(const char *seconds)
{
    struct sigaction action = {.sa_handler = hangs};
    void *frame;

    backtrace(&frame, 1); /* loads the library that it needs, now */
    sigaction(SIGALRM, &action, NULL);
    alarm((unsigned)strtoul(seconds, NULL, 10));
}

__attribute__((constructor)) static void begin(void)
{
    const char *what = getenv("EXS_TORTURE"), *seconds = getenv("EXS_TORTURE_SECONDS"),
               *descriptor = getenv("EXS_TORTURE_CONTROL");
    pthread_t thread;

    dl_iterate_phdr(find_libexs, NULL);
    if (first == 0)
        return; /* a shell or a tool, without libexs */
    if (what != NULL)
        take_aim(what);
    if (seconds != NULL)
        watch(seconds);
    if (descriptor != NULL) {
        control = (int)strtoul(descriptor, NULL, 10);
        pthread_create(&thread, NULL, obey, NULL);
    }
    atomic_store(&armed, what != NULL);
}

__attribute__((destructor)) static void end(void)
{
    if (atomic_load(&reports))
        torture_report();
}
