/* SPDX-License-Identifier: BSD-2-Clause */
/* support.c - see support.h: suites, time limits, random numbers, byte patterns, other threads and processes. */
#include "support.h"
#include "check/support/processes.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#define BUSY 4 /* factor for a machine that also does other work */

/* ---- Programs ------------------------------------------------------------------------ */

void init_library(void)
{
    must(exs_init(EXS_VERSION));
}

TCase *add_bare_case(Suite *suite, const char *name, double seconds)
{
    TCase *tests = new_case(suite, name);
    tcase_set_timeout(tests, seconds * BUSY);
    return tests;
}

TCase *add_case(Suite *suite, const char *name, double seconds)
{
    TCase *tests = add_bare_case(suite, name, seconds);
    tcase_add_checked_fixture(tests, init_library, NULL);
    return tests;
}

/* ---- Time ---------------------------------------------------------------------------- */

int wait_ms(void)
{
    const char *given = getenv("CK_TIMEOUT_MULTIPLIER");
    double times = given ? strtod(given, NULL) : 1;

    return (int)(15000 * BUSY * (times > 1 && times < 1000 ? times : 1));
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && strcmp(value, "0") != 0;
}

double seconds_to_spend(void)
{
    return is_set("EXS_LONG") ? 60 : is_set("EXS_SHORT") ? 0.4 : 2.5;
}

bool sees_bytes(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#endif
#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return false;
#endif
#endif
    return true;
}

/* ---- Random numbers -------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

struct chance chance_new(void)
{
    const char *given = getenv("EXS_SEED");
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t seed =
        given ? strtoull(given, NULL, 0) : mix((uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 30) >> 40;
    fprintf(stderr, "# EXS_SEED=%" PRIu64 "\n", seed);
    return (struct chance){mix(seed)};
}

uint64_t chance_next(struct chance *c)
{
    return mix(c->state++);
}

size_t chance_below(struct chance *c, size_t limit)
{
    return (size_t)(chance_next(c) % limit);
}

size_t chance_size(struct chance *c, size_t least, size_t most)
{
    int bits = 1;

    while (bits < 63 && (size_t)1 << bits <= most)
        bits++;
    size_t size = chance_next(c) & (((size_t)1 << (1 + chance_below(c, (size_t)bits))) - 1);
    return size < least ? least : size > most ? most : size;
}

/* ---- Patterns ------------------------------------------------------------------------ */

static unsigned char pattern_byte(uint64_t seed, uint64_t at)
{
    return (unsigned char)(mix(seed ^ at / 8) >> at % 8 * 8);
}

void pattern_fill(void *buffer, size_t length, uint64_t seed, uint64_t at)
{
    unsigned char *to = buffer;
    size_t i = 0;

    for (; i < length && (at + i) % 8; i++)
        to[i] = pattern_byte(seed, at + i);
    for (; i + 8 <= length; i += 8)
        memcpy(to + i, &(uint64_t){mix(seed ^ (at + i) / 8)}, 8);
    for (; i < length; i++)
        to[i] = pattern_byte(seed, at + i);
}

static void pattern_check_byte(const unsigned char *from, size_t i, uint64_t seed, uint64_t at)
{
    unsigned char want = pattern_byte(seed, at + i);

    ck_assert_msg(from[i] == want, "byte %" PRIu64 " (%zu of this buffer) is %02x, want %02x", at + i, i,
                  from[i], want);
}

void pattern_check(const void *buffer, size_t length, uint64_t seed, uint64_t at)
{
    const unsigned char *from = buffer;
    size_t i = 0;

    for (; i < length && (at + i) % 8; i++)
        pattern_check_byte(from, i, seed, at);
    for (; i + 8 <= length; i += 8) {
        uint64_t word;
        memcpy(&word, from + i, 8);
        if (word != mix(seed ^ (at + i) / 8))
            break;
    }
    for (; i < length; i++)
        pattern_check_byte(from, i, seed, at);
}

void same_bytes(const void *buffer, size_t length, unsigned char value)
{
    const unsigned char *from = buffer;

    if (length && (from[0] != value || memcmp(from, from + 1, length - 1) != 0))
        ck_abort_msg("one of %zu bytes is not %02x", length, value);
}

void *new_buffer(size_t length)
{
    void *buffer = malloc(length);

    ck_assert_ptr_nonnull(buffer);
    memset(buffer, CANARY, length);
    return buffer;
}

/* ---- Other threads and processes ----------------------------------------------------- */

pthread_t thread_start(void *(*run)(void *), void *arg)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}

void thread_join(pthread_t thread)
{
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

void child_start(struct child *child, void (*run)(int fd, void *arg), void *arg)
{
    int ends[2];

    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    child->pid = fork();
    must(child->pid);
    if (child->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        run(ends[1], arg);
        _exit(0);
    }
    close(ends[1]);
    child->fd = ends[0];
}

void child_join(struct child *child)
{
    process_join(child->pid);
    close(child->fd);
}

void child_kill(struct child *child)
{
    process_kill(child->pid);
    close(child->fd);
}

void tell(int fd, const void *what, size_t length)
{
    ck_assert_int_eq(send(fd, what, length, MSG_NOSIGNAL), length);
}

void hear(int fd, void *what, size_t length)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    ck_assert_msg(poll(&wait, 1, WAIT_MS) == 1, "the other process says nothing");
    ck_assert_int_eq(recv(fd, what, length, MSG_WAITALL), length);
}
