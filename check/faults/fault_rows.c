/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_rows.c - the faults, one row each, and how they strike. See faults.h. */
#include "faults.h"

#include <dirent.h>
#include <linux/filter.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define STALL_S 0.3
#define SIGNALS_US 500
#define OUTAGE_MS 1500
#define DAY 86400L
#define SHORTAGE_S 0.05
#define ALWAYS 10000 /* packets of ten thousand */
#define FDS 1024     /* the victim's descriptors are lower: its own, and those of the library from 512 on */

extern char **environ;

/* Check records the progress of tests in a file that all processes of a cell share. A kill in the middle of a
 * write would leave a partial record, on which Check fails. Later writes therefore go to another file; the seek
 * waits for a write in progress. */
static void leave_off_talking(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int elsewhere = memfd_create("unheard", MFD_CLOEXEC);
    struct dirent *entry;

    while (folder && elsewhere >= 0 && (entry = readdir(folder)) != NULL) {
        char path[300] = "";
        int fd = (int)strtol(entry->d_name, NULL, 10), talk;

        if (readlinkat(dirfd(folder), entry->d_name, path, sizeof path - 1) < 0 ||
            !strstr(path, " (deleted)") || strncmp(path, "/memfd:", 7) == 0 || strncmp(path, "/dev/", 5) == 0 ||
            (talk = dup(fd)) < 0)
            continue;
        dup2(elsewhere, fd);
        lseek(talk, 0, SEEK_CUR);
    }
    if (folder)
        closedir(folder);
}

static void be_killed(struct end *end)
{
    (void)end;
    leave_off_talking();
    kill(getpid(), SIGKILL);
}

static void be_frozen(struct end *end)
{
    (void)end;
    kill(getpid(), SIGSTOP);
}

/* Drops everything that arrives for this process's sockets, also in the kernel's TCP, so that it does not
 * answer. */
static void set_reachable(bool reachable)
{
    struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {.len = 1, .filter = &none};

    for (int fd = 0; fd < FDS; fd++) {
        int domain = 0;
        socklen_t length = sizeof domain;

        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
            (domain == AF_INET || domain == AF_INET6))
            setsockopt(fd, SOL_SOCKET, reachable ? SO_DETACH_FILTER : SO_ATTACH_FILTER, &filter, sizeof filter);
    }
}

/* The victim's host is gone: its packets are lost, and nothing receives what is sent to it. */
static void be_unreachable(struct end *end)
{
    wire_set(ALWAYS, 0, 0, 0, end->point->seed);
    set_reachable(false);
    be_frozen(end);
}

static void stall(struct end *end)
{
    atomic_store(&end->stalled_to, seconds_now() + STALL_S);
}

/* ---- Signals ------------------------------------------------------------------------- */

static _Atomic unsigned signals; /* only a counter: no ordering required */

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void begin_signals(struct end *end)
{
    struct sigaction action = {.sa_handler = count_signal};
    struct itimerval every = {{0, SIGNALS_US}, {0, SIGNALS_US}};

    (void)end;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static void end_signals(struct end *end)
{
    struct itimerval never = {{0, 0}, {0, 0}};

    (void)end;
    setitimer(ITIMER_REAL, &never, NULL);
}

/* ---- Programs ------------------------------------------------------------------------ */

static void spawn_programs(struct end *end)
{
    char *words[] = {"true", NULL};
    pid_t pid;

    do
        if (posix_spawnp(&pid, "true", NULL, NULL, words, environ) == 0)
            waitpid(pid, NULL, 0);
    while (!atomic_load(&end->over));
}

/* ---- Descriptors --------------------------------------------------------------------- */

static void set_limit(int which, rlim_t most)
{
    struct rlimit limit;

    getrlimit((__rlimit_resource_t)which, &limit);
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    setrlimit((__rlimit_resource_t)which, &limit);
}

static void wait_for_more(struct end *end)
{
    double until = seconds_now() + SHORTAGE_S;

    while (seconds_now() < until && !atomic_load(&end->over))
        sched_yield();
}

/* For a while no descriptor can be opened. Open ones stay. */
static void use_descriptors_up(struct end *end)
{
    set_limit(RLIMIT_NOFILE, 3);
    wait_for_more(end);
    set_limit(RLIMIT_NOFILE, 1024);
}

/* ---- Memory -------------------------------------------------------------------------- */

static void use_memory_up(struct end *end)
{
    lack_memory(true);
    wait_for_more(end);
    lack_memory(false);
}

/* Other devices are subject to the kernel's limit. */
static void use_memlock_up(struct end *end)
{
    set_limit(RLIMIT_MEMLOCK, 0);
    lack_memlock(true);
    wait_for_more(end);
    lack_memlock(false);
    set_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
}

/* ---- Threads ------------------------------------------------------------------------- */

static void use_threads_up(struct end *end)
{
    lack_threads(true);
    atomic_store(&end->begun, true);
    wait_for_more(end);
    lack_threads(false);
}

/* ---- The device ---------------------------------------------------------------------- */

/* Strikes as soon as this end has a connection, or starts one. */
static void remove_device(struct end *end)
{
    bool lost;

    do {
        sched_yield();
        end->when = seconds_now();
        lost = device_remove(atomic_load(&end->busy), end->point->seed & 2);
    } while (!lost && !atomic_load(&end->over));
    atomic_store(&end->lost, lost);
}

/* ---- The path ------------------------------------------------------------------------ */

/* Strikes as soon as a connection exists. It is the survivor's only connection through the forwarder. */
static void break_path(struct end *end, enum order order)
{
    bool lost;

    do {
        sched_yield();
        end->when = seconds_now();
        lost = forwarder_strike(order);
    } while (!lost && !atomic_load(&end->over));
    atomic_store(&end->lost, lost);
}

static void reset_path(struct end *end)
{
    break_path(end, ORDER_RESET);
}

static void close_path(struct end *end)
{
    break_path(end, ORDER_CLOSE);
}

static void pause_path(struct end *end)
{
    (void)end;
    forwarder_strike(ORDER_PAUSE);
}

static void stop_path(struct end *end)
{
    break_path(end, ORDER_STOP);
    be_frozen(end);
}

static void swallow_path(struct end *end)
{
    break_path(end, ORDER_DISCARD);
    be_frozen(end);
}

/* ---- An outage ----------------------------------------------------------------------- */

/* After an outage TCP retransmits when its retransmission interval expires, which has then grown to about the
 * length of the outage. */
static void lose_network(struct end *end)
{
    (void)end;
    set_reachable(false);
    poll(NULL, 0, OUTAGE_MS); /* the fault itself */
    set_reachable(true);
}

/* ---- Disk space ---------------------------------------------------------------------- */

static void fill_disk(struct end *end)
{
    lack_disk(true);
    wait_for_more(end);
    lack_disk(false);
}

/* ---- The clock ----------------------------------------------------------------------- */

static void step_clock(struct end *end)
{
    clock_step(DAY);
    while (!atomic_load(&end->over)) {
        sched_yield();
        clock_step(atomic_load(&end->moved) % 2 ? DAY : -DAY);
    }
}

static void mend_clock(struct end *end)
{
    (void)end;
    clock_step(0);
}

/* Packets of ten thousand. BAD_WIRE makes one row; there is one for each kind of packet fault, and one for all
 * of them. */
#define BAD_WIRE(name_, ...)                                                                                   \
    {                                                                                                          \
        .name = name_, .who = BOTH, .whole = true, .packets = true, .share = 1, __VA_ARGS__                    \
    }

/* clang-format off */
const struct fault fault_rows[] = {
    {.name = "nothing", .who = BOTH, .share = 1},
    /* exs(7): 25 seconds if nothing is in flight and the application sends no keepalives. It is the first row
     * because it takes longest. */
    {.name = "half-open-unasked", .fate = SILENT, .who = VICTIM, .strike = be_unreachable, .bound = 25, .network = true, .share = 1, .most = 2},
    {.name = "killed", .fate = DIES, .who = VICTIM, .strike = be_killed, .bound = 5, .share = 12},
    {.name = "port-reused", .fate = DIES, .who = VICTIM, .strike = be_killed, .bound = 5, .again = true, .share = 6},
    {.name = "frozen", .fate = LIVES, .who = VICTIM, .strike = be_frozen, .stopped = 0.3, .share = 4},
    /* exs(7): 3.8 seconds if something is in flight; otherwise after a keepalive, which the survivor sends each
     * second. An adapter continues when its process is stopped: see frozen-long. */
    {.name = "frozen-for-good", .fate = SILENT, .who = VICTIM, .strike = be_frozen, .bound = 8, .asked = true, .embedded = true, .share = 1},
    /* exs(7): on an adapter a stopped process still answers, while a silent host is noticed after 17 seconds at
     * most. */
    {.name = "frozen-long", .fate = LIVES, .who = VICTIM, .strike = be_frozen, .stopped = 20, .asked = true, .adapter = true, .share = 1, .most = 1},
    {.name = "half-open", .fate = SILENT, .who = VICTIM, .strike = be_unreachable, .bound = 8, .asked = true, .network = true, .share = 1},
    {.name = "loop-stalled", .fate = LIVES, .who = VICTIM, .strike = stall, .share = 4},
    {.name = "signals", .fate = LIVES, .who = BOTH, .whole = true, .strike = begin_signals, .heal = end_signals, .share = 4},
    {.name = "spawning", .fate = LIVES, .who = BOTH, .whole = true, .strike = spawn_programs, .share = 4},
    {.name = "descriptors", .fate = SHORT, .who = SURVIVOR, .strike = use_descriptors_up, .error = EMFILE, .share = 4},
    {.name = "memory", .fate = SHORT, .who = SURVIVOR, .strike = use_memory_up, .error = ENOMEM, .share = 4},
    {.name = "memlock", .fate = SHORT, .who = SURVIVOR, .strike = use_memlock_up, .error = ENOMEM, .share = 4},
    {.name = "threads", .fate = SHORT, .who = SURVIVOR, .strike = use_threads_up, .error = EAGAIN, .connecting = true, .share = 4},
    {.name = "device-removed", .fate = GONE, .who = SURVIVOR, .strike = remove_device, .error = ECONNRESET, .bound = 5, .embedded = true, .share = 6},
    /* A forwarder between the ends passes the bytes on in segments of any size. */
    {.name = "forwarded", .who = BOTH, .forwarded = true, .share = 1},
    {.name = "path-reset", .fate = GONE, .who = SURVIVOR, .strike = reset_path, .error = ECONNRESET, .bound = 5, .forwarded = true, .share = 6},
    {.name = "path-closed", .fate = GONE, .who = SURVIVOR, .strike = close_path, .error = ECONNRESET, .bound = 5, .forwarded = true, .share = 6},
    {.name = "path-stalled", .fate = LIVES, .who = VICTIM, .strike = pause_path, .forwarded = true, .share = 2},
    {.name = "path-stopped", .fate = SILENT, .who = VICTIM, .strike = stop_path, .bound = 8, .asked = true, .forwarded = true, .share = 1},
    {.name = "path-swallows", .fate = SILENT, .who = VICTIM, .strike = swallow_path, .bound = 8, .asked = true, .forwarded = true, .share = 1},
    {.name = "outage", .fate = LIVES, .who = VICTIM, .strike = lose_network, .network = true, .share = 1},
    {.name = "disk-full", .fate = SHORT, .who = SURVIVOR, .strike = fill_disk, .error = ENOSPC, .files = true, .share = 8},
    {.name = "clock-stepped", .fate = LIVES, .who = BOTH, .whole = true, .strike = step_clock, .heal = mend_clock, .share = 2},
    BAD_WIRE("loss-0.1%", .lost = 10),
    BAD_WIRE("loss-1%", .lost = 100),
    BAD_WIRE("loss-5%", .lost = 500),
    BAD_WIRE("loss-10%", .lost = 1000),
    BAD_WIRE("twice-0.1%", .twice = 10),
    BAD_WIRE("twice-1%", .twice = 100),
    BAD_WIRE("twice-5%", .twice = 500),
    BAD_WIRE("twice-10%", .twice = 1000),
    BAD_WIRE("reorder-0.1%", .late = 10),
    BAD_WIRE("reorder-1%", .late = 100),
    BAD_WIRE("reorder-5%", .late = 500),
    BAD_WIRE("reorder-10%", .late = 1000),
    BAD_WIRE("corrupt-0.1%", .bent = 10),
    BAD_WIRE("corrupt-1%", .bent = 100),
    BAD_WIRE("corrupt-5%", .bent = 500),
    BAD_WIRE("corrupt-10%", .bent = 1000),
};
/* clang-format on */
const int fault_count = COUNT(fault_rows);
