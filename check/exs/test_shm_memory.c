/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_shm_memory.c - the system has no memory left for shared memory, for example because another user has all
 * that vm.overcommit_memory=2 lets processes commit. The connection ends with an error, and the process
 * survives.
 */
#include "check/support/support.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>

enum { LARGE = 8 << 20 };

static _Atomic bool has_no_memory;

/* Replaces the C library's function. */
__attribute__((visibility("default"))) int madvise(void *start, size_t length, int advice)
{
    int (*next)(void *, size_t, int);

    *(void **)&next = dlsym(RTLD_NEXT, "madvise");
    if (advice == MADV_POPULATE_WRITE && has_no_memory) {
        errno = ENOMEM;
        return -1;
    }
    return next(start, length, advice);
}

static void begin(void)
{
    must(setenv("EXS_DEVICE", "soft", 1));
    must(setenv("EXS_LINK", "shm", 1));
    has_no_memory = false;
    init_library();
}

/* Memory is available for the first bytes and not for the rest; `_i` is the direction. */
START_TEST(a_connection_ends)
{
    char *bytes = new_buffer(LARGE), *into = new_buffer(LARGE);
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 1);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 100, 2);
    has_no_memory = true;

    struct inbox *from_box = _i == 0 ? pair.client_box : pair.server_box;
    struct inbox *to_box = _i == 0 ? pair.server_box : pair.client_box;
    int from = _i == 0 ? pair.client : pair.server, to = _i == 0 ? pair.server : pair.client;

    must(exs_recv(to, into, LARGE, MSG_WAITALL, to_box->queue, NULL, NULL));
    must(exs_send(from, bytes, LARGE, 0, from_box->queue, NULL, NULL));
    exs_event_t sent = inbox_take(from_box, EXS_EVT_SEND, from),
                received = inbox_take(to_box, EXS_EVT_RECV, to);

    ck_assert_int_ne(sent.exs_evt_errno, 0);
    ck_assert_int_ne(received.exs_evt_errno, 0);
    has_no_memory = false;
    pair_close(&pair);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, LARGE, 3);
    pair_close(&pair);
    free(bytes);
    free(into);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm memory");
    TCase *tcase = add_bare_case(suite, "shortage", 20);

    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_loop_test(tcase, a_connection_ends, 0, 2);
    return run_suite(suite);
}
