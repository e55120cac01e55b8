/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_standard.c - a program whose standard descriptors are closed: the library never opens a descriptor with
 * one of their numbers, so that output of the program cannot reach it.
 */
#include "check/support/support.h"

#include <fcntl.h>

static void expect_closed(const char *when)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        ck_assert_msg(fcntl(fd, F_GETFD) == -1, "%s, %d is open", when, fd);
}

/* Makes a file to send. `path` returns its name. */
static void make_file(char path[64], size_t length)
{
    char *bytes = new_buffer(length);
    int fd;

    snprintf(path, 64, "/tmp/exs-standard-XXXXXX");
    must(fd = mkostemp(path, O_CLOEXEC));
    pattern_fill(bytes, length, 9, 0);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    close(fd);
    free(bytes);
}

static void send_file(struct pair *pair, char *path, size_t length)
{
    exs_xferfile_t file = {.exs_xfv_type = EXS_PATHVEC, .exs_xfv.exs_pathv = {.exs_path = path}};
    char *bytes = new_buffer(length);

    must(exs_recv(pair->server, bytes, length, MSG_WAITALL, pair->server_box->queue, NULL, NULL));
    must(exs_sendfile(pair->client, &file, 1, 0, pair->client_box->queue, NULL));
    expect_closed("while a file is sent");
    take_good(pair->client_box, EXS_EVT_SENDFILE, pair->client);
    take_good(pair->server_box, EXS_EVT_RECV, pair->server);
    pattern_check(bytes, length, 9, 0);
    free(bytes);
}

START_TEST(closed)
{
    struct pair pair;
    char path[64];

    make_file(path, 20000);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    init_library();
    expect_closed("after exs_init");
    pair_open(&pair, AF_INET, kinds[_i].type);
    expect_closed("with a connection");
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100000, 1);
    if (kinds[_i].type == SOCK_STREAM)
        send_file(&pair, path, 20000);
    expect_closed("with a connection at work");
    pair_close(&pair);
    pair_open_blocking(&pair, AF_INET, kinds[_i].type);
    expect_closed("with a blocking connection");
    pair_close_blocking(&pair);
    expect_closed("in the end");
    must(unlink(path));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("standard descriptors");

    tcase_add_loop_test(add_bare_case(suite, "closed", 15), closed, 0, COUNT(kinds));
    return run_suite(suite);
}
