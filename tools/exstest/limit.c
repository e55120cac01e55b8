/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * limit.c - the limit test. Acquires each resource until an attempt fails, the maximum is reached, or half of the
 * machine's free memory is used. A failure must be an errno that means a limit, and all resources must be released
 * afterwards.
 *
 * With a width, that number of sets (sets.h) is created first, and the attempts use them in turn.
 */
#include "limit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "limits.h"
#include "resources.h"
#include "tools/common/options.h"
#include "say.h"
#include "sets.h"

enum {
    UNLIMITED = 1 << 18, /* maximum attempts without -m: if all succeed, the limit was not found */
    LOOK_EVERY = 64,     /* attempts between checks of the memory */
    LOOKS = 10000        /* checks, a millisecond apart, that a joined thread is no longer listed in /proc */
};

struct test { /* owned by limit_run */
    const struct options *options;
    struct sockaddr_storage address;
    socklen_t length;
    struct set *sets;
    uint32_t width; /* number of sets */
    struct thing *things;
    uint32_t room;
    long memory; /* maximum resident memory, KiB */
    bool failed;
    int written; /* results printed as JSON so far */
};

static void test_failed(struct test *test, const char *what)
{
    complain("%s: %s", what, strerror(errno));
    test->failed = true;
}

static const struct limit size_limit = {"limit_size_region", {"limit_size_lmr"}, "largest region", NULL, NULL};

/* ---- Sets -------------------------------------------------------------------------------------------- */

static bool make_sets(struct test *test)
{
    for (test->width = 0; test->width < test->options->width; test->width++) {
        if (set_make(&test->sets[test->width], &test->address, test->length) == -1) {
            if (test->width > 0) {
                say("LimitTest: sets made: %u of %u (then: %s)", test->width, test->options->width,
                    strerror(errno));
                return true;
            }
            test_failed(test, "making a queue, a listener, a connection and a region");
            return false;
        }
    }
    return true;
}

static void free_sets(struct test *test)
{
    while (test->width > 0)
        if (set_free(&test->sets[--test->width]) == -1)
            test->failed = true;
}

/* ---- Exhausting -------------------------------------------------------------------------------------- */

/* Whether this errno means a limit. Any other errno is a failure of the test. */
static bool is_limit(int error)
{
    static const int known[] = {EMFILE,     ENFILE,        ENOMEM,       ENOBUFS,      EAGAIN,   ENOSPC,
                                EADDRINUSE, EADDRNOTAVAIL, ECONNREFUSED, ECONNABORTED, ETIMEDOUT};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i] == error)
            return true;
    return false;
}

static bool grow_things(struct test *test)
{
    uint32_t room = test->room == 0 ? 1024 : test->room * 2;
    struct thing *things = realloc(test->things, room * sizeof(*things));

    if (things == NULL)
        return false;
    test->things = things;
    test->room = room;
    return true;
}

/* Acquires the resource until an attempt fails, and returns the number acquired. *error: errno of the last attempt, or
 * 0. *memory: stopped by the limit on memory. */
static uint32_t exhaust_limit(struct test *test, const struct limit *limit, int *error, bool *memory)
{
    uint32_t most = test->options->maximum > 0 ? test->options->maximum : UNLIMITED, count = 0;

    *error = 0;
    *memory = false;
    while (count < most && !*memory) {
        if (count == test->room && !grow_things(test)) {
            *memory = true;
            break;
        }
        struct set *set = &test->sets[count % test->width];

        if (limit->get(set, &test->things[count]) == -1) {
            *error = errno;
            break;
        }
        count++;
        trace(2, "%s: %u", limit->name, count);
        *memory = count % LOOK_EVERY == 0 && resources_resident() > test->memory;
    }
    return count;
}

static void give_back(struct test *test, const struct limit *limit, uint32_t count)
{
    while (limit->give_back != NULL && count-- > 0)
        if (limit->give_back(&test->sets[count % test->width], &test->things[count]) == -1)
            test_failed(test, limit->name);
}

static void print_result(struct test *test, const struct limit *limit, unsigned long long count,
                         const char *why)
{
    if (test->options->json)
        printf("%s\"%s\":{\"count\":%llu,\"ended_by\":\"%s\"}", test->written++ > 0 ? "," : "", limit->name,
               count, why);
    else if (limit == &size_limit)
        say("LimitTest: Largest region was %#llx bytes (%s)", count, why);
    else
        say("LimitTest: %s: %llu (%s)", limit->title, count, why);
}

static void run_limit(struct test *test, const struct limit *limit)
{
    bool memory;
    int error;

    if (!make_sets(test)) {
        free_sets(test);
        return;
    }
    uint32_t count = exhaust_limit(test, limit, &error, &memory);

    give_back(test, limit, count);
    free_sets(test);
    if (error != 0 && !is_limit(error)) {
        errno = error;
        test_failed(test, limit->name);
    }
    print_result(test, limit, count,
                 error != 0                   ? strerror(error)
                 : memory                     ? "half of the free memory is used"
                 : test->options->maximum > 0 ? "maximum reached"
                                              : "no limit found");
}

/* ---- The largest region ------------------------------------------------------------------------------ */

/* Registers, exports and releases a region of this size. Returns 0 or an errno. */
static int try_size(struct test *test, size_t size)
{
    struct set *set = &test->sets[0];
    exs_token_t token;
    int error = 0;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return errno;
    exs_mhandle_t region = exs_mregister(memory, size, 0);

    if (region == EXS_MHANDLE_INVALID) {
        error = errno;
    } else {
        if (exs_mexport(set->ends.server, region, memory, size, EXS_REMOTE_READ, &token) == -1)
            error = errno;
        else if (exs_munexport(set->ends.server, &token) == -1)
            test_failed(test, "taking back an export");
        if (exs_mderegister(region, 0) == -1)
            test_failed(test, "deregistering a region");
    }
    munmap(memory, size);
    return error;
}

/* Returns the largest size to try. An adapter pins registered memory, so its maximum is a part of the machine's
 * memory. */
static size_t most_size(const struct test *test)
{
    char device[64] = "";

    exs_getdevice(test->sets[0].ends.server, device, sizeof(device));
    return strncmp(device, "soft", 4) == 0 ? EXS_MSG_MAX : (size_t)test->memory * 1024;
}

static void run_size(struct test *test)
{
    size_t good = 0, most, bad;
    int error = 0;

    if (!make_sets(test)) {
        free_sets(test);
        return;
    }
    most = most_size(test);
    for (bad = SET_MEMORY; error == 0 && bad <= most; bad *= 2) {
        error = try_size(test, bad);
        if (error == 0)
            good = bad;
        else
            break;
    }
    for (size_t step = good / 2; error != 0 && step >= SET_MEMORY; step /= 2) {
        size_t next = (good + step) / SET_MEMORY * SET_MEMORY;

        if (try_size(test, next) == 0)
            good = next;
    }
    free_sets(test);
    if (error != 0 && !is_limit(error)) {
        errno = error;
        test_failed(test, size_limit.name);
    }
    print_result(test, &size_limit, good, error != 0 ? strerror(error) : "the most that is tried");
}

/* ---- The test ---------------------------------------------------------------------------------------- */

static bool has_name(const struct limit *limit, const char *word)
{
    return strcmp(word, limit->name) == 0 || (limit->alias[0] != NULL && strcmp(word, limit->alias[0]) == 0) ||
           (limit->alias[1] != NULL && strcmp(word, limit->alias[1]) == 0);
}

static bool is_wanted(const struct options *o, const struct limit *limit)
{
    for (int i = 0; i < o->limits_count; i++)
        if (has_name(limit, o->limits[i]))
            return true;
    return o->limits_count == 0;
}

static bool check_words(const struct options *o)
{
    for (int i = 0; i < o->limits_count; i++) {
        bool known = has_name(&size_limit, o->limits[i]);

        for (int k = 0; k < LIMITS; k++)
            known = known || has_name(&limits[k], o->limits[i]);
        if (!known) {
            complain("there is no %s", o->limits[i]);
            return false;
        }
    }
    return true;
}

/* Creates and frees all sets once, so that resources that a thread and a device never release exist before resources
 * are counted. */
static bool warm_up(struct test *test)
{
    bool made;

    made = make_sets(test);
    free_sets(test);
    if (!made && test->options->address == NULL)
        complain("a real device may not serve 127.0.0.1: name an address of its own with -a");
    return made && !test->failed;
}

/* Returns the resources in use. Waits a while for joined threads to leave /proc, where the kernel may list them after
 * pthread_join(). */
static struct resources left_of(const struct resources *before)
{
    struct resources now = resources_now();

    for (int looks = 0; now.threads > before->threads && looks < LOOKS; looks++) {
        poll(NULL, 0, 1);
        now = resources_now();
    }
    return now;
}

static void compare_resources(struct test *test, const struct resources *before)
{
    struct resources after = left_of(before);

    say("LimitTest: descriptors %ld before, %ld after; threads %ld, %ld; pinned KiB %ld, %ld",
        before->descriptors, after.descriptors, before->threads, after.threads, before->pinned, after.pinned);
    if (after.descriptors == before->descriptors && after.threads <= before->threads &&
        after.pinned == before->pinned)
        return;
    complain("not everything has come back");
    test->failed = true;
}

static void run_all(struct test *test)
{
    if (test->options->json)
        printf("{\"test\":\"L\",\"limits\":{");
    if (warm_up(test)) {
        struct resources before = resources_now();

        for (int i = 0; i < LIMITS; i++)
            if (is_wanted(test->options, &limits[i]))
                run_limit(test, &limits[i]);
        if (is_wanted(test->options, &size_limit))
            run_size(test);
        compare_resources(test, &before);
    }
    if (test->options->json)
        printf("},\"passed\":%s}\n", test->failed ? "false" : "true");
}

int limit_run(const struct options *o)
{
    struct test test = {.options = o, .memory = resources_available() / 2};

    if (!check_words(o))
        return 2;
    test.length = options_address(o->address != NULL ? o->address : "127.0.0.1", "0", &test.address);
    test.sets = calloc(o->width, sizeof(*test.sets));
    if (test.sets == NULL) {
        complain("no memory");
        return 1;
    }
    run_all(&test);
    free(test.sets);
    free(test.things);
    say("LimitTest: Limit Testing Completed - %s", test.failed ? "FAILED" : "passed");
    say("LimitTest: testing and cleanup complete.");
    return test.failed ? 1 : 0;
}
