/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unreceived.c - the system call that receives UDP packets always fails, as in a sandbox. If only
 * recvmmsg(2) is forbidden, packets are received one by one; if recvmsg(2) is, too, connections end immediately
 * instead of by a timeout.
 */
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "check/support/support.h"

static atomic_int many_fails, one_fails; /* errno of the calls; 0: they work */
static atomic_long ones;                 /* datagrams that recvmsg() returned */

static bool is_udp(int sock)
{
    int type = 0, domain = 0;
    socklen_t length = sizeof type;

    getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &length);
    getsockopt(sock, SOL_SOCKET, SO_DOMAIN, &domain, &length);
    return type == SOCK_DGRAM && domain != AF_UNIX;
}

__attribute__((visibility("default"))) int recvmmsg(int sock, struct mmsghdr *messages, unsigned count,
                                                    int flags, struct timespec *limit)
{
    if (many_fails == 0)
        return (int)syscall(SYS_recvmmsg, sock, messages, count, flags, limit);
    errno = many_fails;
    return -1;
}

__attribute__((visibility("default"))) ssize_t recvmsg(int sock, struct msghdr *message, int flags)
{
    if (one_fails == 0 || !is_udp(sock)) {
        ssize_t got = syscall(SYS_recvmsg, sock, message, flags);

        ones += got > 0 && is_udp(sock);
        return got;
    }
    errno = one_fails;
    return -1;
}

static const int errors[] = {ENOSYS, EPERM};

START_TEST(one_by_one)
{
    struct pair pair;

    must(setenv("EXS_LINK", "udp", 1));
    many_fails = errors[_i];
    init_library();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 3 * MIB, 1);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 100, 2);
    ck_assert_int_gt(ones, 0);
    pair_close(&pair);
    must(exs_fini());
}
END_TEST

START_TEST(not_at_all)
{
    struct pair pair;
    char *bytes = new_buffer(MIB), byte;

    must(setenv("EXS_LINK", "udp", 1));
    init_library();
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    many_fails = one_fails = errors[_i];
    must_fail(exs_write(pair.server, bytes, MIB), ECONNRESET); /* and not ETIMEDOUT after 3.8 s */
    must_fail(exs_read(pair.client, &byte, 1), ECONNRESET);
    free(bytes);
    (void)exs_blocking_close(pair.client);
    (void)exs_blocking_close(pair.server);
    must(exs_blocking_close(pair.listener));
    must(exs_fini());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unreceived");
    TCase *tcase = add_bare_case(suite, "unreceived", 20);

    tcase_add_loop_test(tcase, one_by_one, 0, COUNT(errors));
    tcase_add_loop_test(tcase, not_at_all, 0, COUNT(errors));
    return run_suite(suite);
}
