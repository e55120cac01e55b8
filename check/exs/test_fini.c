/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_fini.c - exs_fini: calls are counted, it is refused while sockets exist, it leaves no descriptors behind, and
 * the library can be initialized again. (check/conformance has a row for each errno.)
 */
#include "check/support/processes.h"
#include "check/support/support.h"
#include "check/support/twonets.h"

START_TEST(version)
{
    ck_assert_str_eq(exs_version_string(), PACKAGE_VERSION);
}
END_TEST

START_TEST(version_of_the_header)
{
    char text[32];

    snprintf(text, sizeof(text), "%d.%d.%d", EXS_VERSION_HEX >> 16, EXS_VERSION_HEX >> 8 & 0xff,
             EXS_VERSION_HEX & 0xff);
    ck_assert_str_eq(text, PACKAGE_VERSION);
#if EXS_VERSION_HEX < 0x020100
    ck_abort_msg("EXS_VERSION_HEX is too small for the preprocessor");
#endif
}
END_TEST

START_TEST(counted)
{
    enum { LIBRARIES = 5 };

    must(exs_init(EXS_VERSION));
    for (int i = 1; i < LIBRARIES; i++)
        ck_assert_int_eq(exs_init(EXS_VERSION), 0);
    must_fail(exs_init(EXS_VERSION + 1), ENOTSUP); /* is not counted */
    for (int i = 1; i < LIBRARIES; i++)
        must(exs_fini());
    int socket = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(socket);
    must_fail(exs_fini(), EBUSY);
    must(exs_blocking_close(socket));
    must(exs_fini());
    must_fail(exs_socket(PF_INET, SOCK_STREAM, 0), EPERM);
    must_fail(exs_fini(), EPERM);
}
END_TEST

/* Sockets with private home queues and with the application's queues, by connect and by accept. */
static void use(void)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100000, 1);
    must_fail(exs_fini(), EBUSY);
    pair_close(&pair);
}

START_TEST(leaves_nothing)
{
    int before = count_fds();

    for (int i = 0; i < 3; i++) {
        must(exs_init(EXS_VERSION));
        use();
        must(exs_fini());
        must_fail(exs_fini(), EPERM);
        if (!on_rdma()) /* rdma-core keeps some for the process */
            ck_assert_int_eq(count_fds(), before);
    }
}
END_TEST

/* If connections are set up through RoCE's own port, exs_fini releases it. */
START_TEST(leaves_no_port)
{
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_port = htons(4791)};
    int before = count_fds();

    must(setenv("EXS_ROCE", _i == 0 ? "on" : "only", 1));
    if (on_rdma() || !twonets_alone())
        return;
    for (int i = 0; i < 3; i++) {
        must(exs_init(EXS_VERSION));
        use();
        must(exs_fini());
        ck_assert_int_eq(count_fds(), before);
        int own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        must(bind(own, (struct sockaddr *)&port, sizeof port));
        must(close(own));
    }
}
END_TEST

/* A socket that the application closed by close(2), and a connection that is still open. */
START_TEST(lost_sockets)
{
    struct pair pair;

    must(exs_init(EXS_VERSION));
    int lost = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(lost);
    must(close(lost));
    /* The same number, so the library drops the first socket. */
    int again = exs_socket(PF_INET, SOCK_STREAM, 0);

    ck_assert_int_eq(again, lost);
    must_fail(exs_fini(), EBUSY);
    must(exs_blocking_close(again));
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    must_fail(exs_fini(), EBUSY);
    pair_close_blocking(&pair);
    must(exs_fini());
}
END_TEST

START_TEST(environment)
{
    must(exs_init(EXS_VERSION));
    must(setenv("EXS_LINK", "nonsense", 1));
    must(exs_fini());
    must_fail(exs_init(EXS_VERSION), EINVAL);
    must_fail(exs_fini(), EPERM);
    must(setenv("EXS_LINK", "udp", 1));
    must(exs_init(EXS_VERSION));
    use();
    must(exs_fini());
}
END_TEST

/* A thread's sleep descriptors belong to its process, whether or not the library was in use at the time of the fork. */
START_TEST(forked_after)
{
    struct pair pair;
    int before = count_fds();

    must(exs_init(EXS_VERSION));
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    pair_close_blocking(&pair);
    must(exs_fini());
    pid_t pid = fork();

    must(pid);
    if (pid == 0) {
        bool refused = exs_fini() == -1 && errno == ECHILD;

        if (on_rdma()) /* the parent's devices can't be used by the child */
            _exit(refused && exs_init(EXS_VERSION) == -1 && errno == ENODEV ? 0 : 1);
        bool clean = count_fds() == before;

        _exit(clean && refused && exs_init(EXS_VERSION) == 0 && exs_fini() == 0 ? 0 : 1);
    }
    process_join(pid);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fini");
    TCase *tcase = add_bare_case(suite, "fini", 15);

    tcase_add_test(tcase, version);
    tcase_add_test(tcase, version_of_the_header);
    tcase_add_test(tcase, counted);
    tcase_add_test(tcase, leaves_nothing);
    tcase_add_loop_test(tcase, leaves_no_port, 0, 2);
    tcase_add_test(tcase, lost_sockets);
    tcase_add_test(tcase, environment);
    tcase_add_test(tcase, forked_after);
    return run_suite(suite);
}
