/* SPDX-License-Identifier: BSD-2-Clause */
/* rows.c - see rows.h. */
#include "rows.h"

#include <fcntl.h>

struct world world;

static void world_open(void)
{
    init_library();
    pair_open(&world.pair, AF_INET, SOCK_STREAM);
    pair_open(&world.shut_pair, AF_INET, SOCK_STREAM);
    struct pair *shut = &world.shut_pair;
    must(exs_shutdown(shut->client, SHUT_WR, 0, shut->client_box->queue, NULL));
    take_good(shut->client_box, EXS_EVT_SHUTDOWN, shut->client);
    inbox_open(&world.box, 16);
    world.bytes = new_buffer(100);
    int *s = world.sockets;
    struct address free_port = loopback(AF_INET, 0);
    s[CONNECTED] = world.pair.client;
    s[SHUT] = shut->client;
    s[LISTENING] = world.pair.listener;
    must(s[FRESH] = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(s[BOUND] = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_bind(s[BOUND], SA(&free_port), free_port.length));
    s[NEGATIVE] = -1;
    s[UNUSED] = 19999;
    must(s[FOREIGN] = open("/dev/null", O_RDWR | O_CLOEXEC));
}

/* Checks that the failed calls have left no event, and that the sockets still work. */
static void world_close(void)
{
    inbox_quiet(&world.box, QUIET_MS);
    world.box.beside = NULL;
    pass_bytes(world.pair.client_box, world.pair.client, world.pair.server_box, world.pair.server, 5000, 1);
    must(exs_blocking_close(world.sockets[FRESH]));
    must(exs_blocking_close(world.sockets[BOUND]));
    close(world.sockets[FOREIGN]);
    pair_close(&world.pair);
    pair_close(&world.shut_pair);
    inbox_close(&world.box);
    free(world.bytes);
}

exs_qhandle_t queue_of(const struct row *row, int flags)
{
    if (row->queue == INVALID_QUEUE)
        return EXS_QHANDLE_INVALID;
    return row->queue == NO_QUEUE || flags & EXS_BLOCK ? NULL : world.box.queue;
}

bool is_either(int error, int this, int that)
{
    return error == this || (that && error == that);
}

/* exs_errmsg() must start with the function that failed, not with the one that failed with EINVAL before. A synonym has
 * the name of the other function. */
static int try_errmsg(const char *function, const struct row *row)
{
    const char *name = strcmp(function, "exs_read") == 0    ? "exs_recv"
                       : strcmp(function, "exs_write") == 0 ? "exs_send"
                                                            : function;
    size_t length = strncmp(name, "exs_blocking_", 13) == 0 ? 13 : 4;
    int error = errno;
    const char *text = exs_errmsg();
    size_t rest = strcspn(text, ": ");

    if (rest == strlen(name) - length + 4 && strncmp(text + 4, name + length, rest - 4) == 0 &&
        strlen(text) > rest + 10 && errno == error)
        return 0;
    fprintf(stderr, "%s, %s: exs_errmsg is: %s\n", function, row->what, text);
    return 1;
}

static int try_row(const char *function, call_fn *call, const struct row *row, int flags)
{
    must_fail(exs_qfd(NULL), EINVAL);
    errno = 0;
    long result = call(row, world.sockets[row->socket], row->flags | flags);
    if (result == -1 && is_either(errno, row->error, row->or_error))
        return try_errmsg(function, row);
    fprintf(stderr, "%s, %s, %s: returned %ld with errno %s, want -1 with %s\n", function,
            flags & EXS_BLOCK ? "blocking" : "not blocking", row->what, result, strerrorname_np(errno),
            strerrorname_np(row->error));
    return 1;
}

void try_rows(const char *function, call_fn *call, const struct row *rows, int count)
{
    int wrong = 0;

    for (int i = 0; i < count; i++) {
        if (rows[i].mode != BLOCKING)
            wrong += try_row(function, call, &rows[i], 0);
        if (rows[i].mode != ASYNC)
            wrong += try_row(function, call, &rows[i], EXS_BLOCK);
    }
    ck_assert_msg(wrong == 0, "%s: %d rows are wrong, see above", function, wrong);
}

void add_world_case(Suite *suite, const char *name, const TTest *const *tests, int count)
{
    TCase *rows = add_bare_case(suite, name, 20);

    tcase_add_checked_fixture(rows, world_open, world_close);
    for (int i = 0; i < count; i++)
        tcase_add_test(rows, tests[i]);
}
