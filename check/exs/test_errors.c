/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_errors.c - every error that can be returned by a call before exs_init, and by a call that makes, names, connects
 * or closes sockets, blocking or not. A call that returns an error posts no event. test_errors_transfer.c tests the
 * calls that transfer data.
 *
 * The source of each row is the thesis, appendix A, 5.2 and 5.3, or else what the same call of BSD sockets does.
 */
#include "check/support/every_call.h"
#include "check/support/rows.h"

#include <fcntl.h>

/* ---- Before exs_init ----------------------------------------------------------------- */

START_TEST(before_init)
{
    ck_assert_int_eq(every_call_but(EPERM), 0);
    ck_assert_ptr_nonnull(exs_strevent(EXS_EVT_SEND));
}
END_TEST

START_TEST(init)
{
    must_fail(exs_init(0), ENOTSUP);
    must_fail(exs_init(-1), ENOTSUP);
    must_fail(exs_init(EXS_VERSION + 1), ENOTSUP);
    must_fail(exs_socket(PF_INET, SOCK_STREAM, 0), EPERM);
    must(exs_init(EXS_VERSION));
    ck_assert_int_eq(exs_init(EXS_VERSION), 0);
    must_fail(exs_init(EXS_VERSION + 1), ENOTSUP);
    int socket = exs_socket(PF_INET, SOCK_STREAM, IPPROTO_TCP);
    must(socket);
    must(exs_blocking_close(socket));
}
END_TEST

/* ---- Sockets ------------------------------------------------------------------------- */

static void no_socket(int family, int type, int protocol)
{
    ck_assert_int_eq(exs_socket(family, type, protocol), -1);
    ck_assert(errno == EAFNOSUPPORT || errno == ESOCKTNOSUPPORT || errno == EPROTONOSUPPORT ||
              errno == EPROTOTYPE);
}

START_TEST(socket_kinds)
{
    static const int families[] = {-1, AF_UNSPEC, AF_UNIX, AF_PACKET, 9999};
    static const int types[] = {-1, 0, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, 9999};
    static const int protocols[] = {-1, IPPROTO_UDP, IPPROTO_ICMP, 9999};

    for (int i = 0; i < COUNT(families); i++)
        must_fail(exs_socket(families[i], SOCK_STREAM, 0), EAFNOSUPPORT);
    for (int i = 0; i < COUNT(types); i++)
        no_socket(PF_INET, types[i], 0);
    for (int i = 0; i < COUNT(protocols); i++)
        no_socket(PF_INET6, SOCK_STREAM, protocols[i]);
    no_socket(PF_INET, SOCK_SEQPACKET, IPPROTO_TCP);
}
END_TEST

static long call_bind(const struct row *row, int socket, int flags)
{
    struct address address = loopback(row->number ? row->number : AF_INET, 0);

    (void)flags;
    return exs_bind(socket, row->null ? NULL : SA(&address),
                    row->length ? (socklen_t)row->length : address.length);
}

START_TEST(bind_errors)
{
    const struct row rows[] = {
        NOT_A_SOCKET,
        ROW("a connected socket", EINVAL, .socket = CONNECTED),
        ROW("a bound socket", EINVAL, .socket = BOUND),
        ROW("a listening socket", EINVAL, .socket = LISTENING),
        ROW("no address", EINVAL, .socket = FRESH, .null = true, .or_error = EFAULT),
        ROW("half an address", EINVAL, .socket = FRESH, .length = 8),
        ROW("the other family", EAFNOSUPPORT, .socket = FRESH, .number = AF_INET6, .or_error = EINVAL),
    };

    try_rows("exs_bind", call_bind, rows, COUNT(rows));
}
END_TEST

START_TEST(bind_addresses)
{
    struct address elsewhere = loopback(AF_INET, 0), taken = world.pair.address;
    struct sockaddr_in *four = (struct sockaddr_in *)&elsewhere.storage;

    four->sin_addr.s_addr = htonl(0xC0000201); /* 192.0.2.1 of TEST-NET-1, which no host has */
    must_fail(exs_bind(world.sockets[FRESH], SA(&elsewhere), elsewhere.length), EADDRNOTAVAIL);
    if (exs_bind(world.sockets[FRESH], SA(&taken), taken.length) == 0)
        must_fail(exs_listen(world.sockets[FRESH], 1), EADDRINUSE);
    else
        ck_assert_int_eq(errno, EADDRINUSE);
}
END_TEST

static long call_listen(const struct row *row, int socket, int flags)
{
    (void)flags;
    return exs_listen(socket, row->number);
}

START_TEST(listen_errors)
{
    const struct row rows[] = {
        NOT_A_SOCKET,
        ROW("a negative backlog", EINVAL, .socket = BOUND, .number = -1),
        ROW("a connected socket", EINVAL, .number = 10),
        ROW("a listening socket", EINVAL, .socket = LISTENING, .number = 10),
    };

    try_rows("exs_listen", call_listen, rows, COUNT(rows));
}
END_TEST

static long call_accept(const struct row *row, int socket, int flags)
{
    exs_acceptaddr_t elements[4] = {0};
    int count = row->number == 99 ? 0 : row->number ? row->number : 1;

    return exs_accept(socket, row->null ? NULL : elements, count, flags, queue_of(row, flags));
}

static long call_blocking_accept(const struct row *row, int socket, int flags)
{
    (void)row;
    (void)flags;
    return exs_blocking_accept(socket, NULL, NULL);
}

START_TEST(accept_errors)
{
    const struct row rows[] = {
        NOT_A_SOCKET,
        BAD_QUEUES(LISTENING),
        BAD_FLAGS(LISTENING, EINVAL),
        ROW("EXS_UNSIGNALED", EINVAL, .socket = LISTENING, .flags = EXS_UNSIGNALED),
        ROW("-1 elements", EINVAL, .socket = LISTENING, .number = -1),
        ROW("0 elements", EINVAL, .socket = LISTENING, .number = 99),
        ROW("2 elements", EINVAL, .mode = BLOCKING, .socket = LISTENING, .number = 2),
        ROW("no elements", EINVAL, .socket = LISTENING, .null = true, .or_error = EFAULT),
        ROW("a fresh socket", EINVAL, .socket = FRESH),
        ROW("a bound socket", EINVAL, .socket = BOUND),
        ROW("a connected socket", EINVAL, .socket = CONNECTED),
    };
    const struct row alias[] = {
        NOT_A_SOCKET,
        ROW("a fresh socket", EINVAL, .socket = FRESH),
        ROW("a connected socket", EINVAL, .socket = CONNECTED),
    };

    try_rows("exs_accept", call_accept, rows, COUNT(rows));
    try_rows("exs_blocking_accept", call_blocking_accept, alias, COUNT(alias));
}
END_TEST

static long call_connect(const struct row *row, int socket, int flags)
{
    struct address to = row->number == AF_INET6 ? loopback(AF_INET6, 9) : world.pair.address;
    struct timeval late = {0, -1};

    return exs_connect(socket, row->null ? NULL : SA(&to), row->length ? (socklen_t)row->length : to.length,
                       flags, row->number == -1 ? &late : NULL, queue_of(row, flags), NULL);
}

static long call_blocking_connect(const struct row *row, int socket, int flags)
{
    (void)row;
    (void)flags;
    return exs_blocking_connect(socket, SA(&world.pair.address), world.pair.address.length);
}

START_TEST(connect_errors)
{
    const struct row rows[] = {
        NOT_A_SOCKET,
        BAD_QUEUES(FRESH),
        BAD_FLAGS(FRESH, EINVAL),
        ROW("EXS_UNSIGNALED", EINVAL, .socket = FRESH, .flags = EXS_UNSIGNALED),
        ROW("a connected socket", EINVAL, .socket = CONNECTED),
        ROW("a listening socket", EINVAL, .socket = LISTENING),
        ROW("no address", EINVAL, .socket = FRESH, .null = true, .or_error = EFAULT),
        ROW("half an address", EINVAL, .socket = FRESH, .length = 8),
        ROW("the other family", EAFNOSUPPORT, .socket = FRESH, .number = AF_INET6, .or_error = EINVAL),
        ROW("a time-out that is none", EINVAL, .socket = FRESH, .number = -1, .or_error = EDOM),
    };
    const struct row alias[] = {
        NOT_A_SOCKET,
        ROW("a connected socket", EINVAL, .socket = CONNECTED),
        ROW("a listening socket", EINVAL, .socket = LISTENING),
    };

    try_rows("exs_connect", call_connect, rows, COUNT(rows));
    try_rows("exs_blocking_connect", call_blocking_connect, alias, COUNT(alias));
}
END_TEST

static long call_shutdown(const struct row *row, int socket, int flags)
{
    return exs_shutdown(socket, row->number, flags, queue_of(row, flags), NULL);
}

START_TEST(shutdown_errors)
{
    const struct row rows[] = {
        NOT_A_SOCKET,
        BAD_QUEUES(CONNECTED),
        BAD_FLAGS(CONNECTED, EINVAL),
        ROW("EXS_UNSIGNALED", EINVAL, .flags = EXS_UNSIGNALED),
        ROW("how -1", EINVAL, .number = -1),
        ROW("how 3", EINVAL, .number = SHUT_RDWR + 1),
        ROW("a fresh socket", ENOTCONN, .socket = FRESH),
        ROW("a bound socket", ENOTCONN, .socket = BOUND),
    };

    try_rows("exs_shutdown", call_shutdown, rows, COUNT(rows));
}
END_TEST

static long call_close(const struct row *row, int socket, int flags)
{
    return exs_close(socket, flags, queue_of(row, flags), NULL);
}

static long call_blocking_close(const struct row *row, int socket, int flags)
{
    (void)row;
    (void)flags;
    return exs_blocking_close(socket);
}

START_TEST(close_errors)
{
    const struct row rows[] = {
        NOT_A_SOCKET,
        BAD_FLAGS(CONNECTED, EINVAL),
        ROW("an invalid queue", EINVAL, .queue = INVALID_QUEUE),
        ROW("EXS_UNSIGNALED", EINVAL, .flags = EXS_UNSIGNALED),
    };
    const struct row alias[] = {NOT_A_SOCKET};

    try_rows("exs_close", call_close, rows, COUNT(rows));
    try_rows("exs_blocking_close", call_blocking_close, alias, COUNT(alias));
}
END_TEST

START_TEST(closed_twice)
{
    int socket = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(socket);
    close_socket(&world.box, socket);
    must_fail(exs_close(socket, 0, world.box.queue, NULL), EBADF);
    must_fail(exs_blocking_close(socket), EBADF);
    must_fail(exs_listen(socket, 1), EBADF);
}
END_TEST

static long call_getsockname(const struct row *row, int socket, int flags)
{
    struct address address = {.length = sizeof address.storage};

    (void)flags;
    return exs_getsockname(socket, row->null ? NULL : SA(&address), row->null ? NULL : &address.length);
}

static long call_getpeername(const struct row *row, int socket, int flags)
{
    struct address address = {.length = sizeof address.storage};

    (void)flags;
    return exs_getpeername(socket, row->null ? NULL : SA(&address), row->null ? NULL : &address.length);
}

static long call_getdevice(const struct row *row, int socket, int flags)
{
    char name[100];

    (void)flags;
    return exs_getdevice(socket, row->null ? NULL : name,
                         row->number == 99 ? 0
                         : row->number     ? 1
                                           : sizeof name);
}

static long call_fcntl(const struct row *row, int socket, int flags)
{
    (void)flags;
    return exs_fcntl(socket, row->number, 0);
}

START_TEST(naming_errors)
{
    const struct row sockname[] = {
        NOT_A_SOCKET,
        ROW("no address", EFAULT, .null = true),
    };
    const struct row peername[] = {
        NOT_A_SOCKET,
        ROW("no address", EFAULT, .null = true),
        ROW("a fresh socket", ENOTCONN, .socket = FRESH),
        ROW("a bound socket", ENOTCONN, .socket = BOUND),
        ROW("a listening socket", ENOTCONN, .socket = LISTENING),
    };
    const struct row device[] = {
        NOT_A_SOCKET,
        ROW("no buffer", EFAULT, .null = true),
        ROW("a buffer of 0 bytes", EINVAL, .number = 99),
        ROW("a buffer of 1 byte", ENAMETOOLONG, .number = 1),
        ROW("a fresh socket", ENOTCONN, .socket = FRESH),
    };
    const struct row command[] = {
        ROW("a negative number", EBADF, .socket = NEGATIVE, .number = F_GETFL),
        ROW("a descriptor that is not ours", EBADF, .socket = FOREIGN, .number = F_GETFL),
        ROW("F_DUPFD", EINVAL, .number = F_DUPFD),
        ROW("F_SETOWN", EINVAL, .number = F_SETOWN),
        ROW("no command", EINVAL, .number = -1),
    };

    try_rows("exs_getsockname", call_getsockname, sockname, COUNT(sockname));
    try_rows("exs_getpeername", call_getpeername, peername, COUNT(peername));
    try_rows("exs_getdevice", call_getdevice, device, COUNT(device));
    try_rows("exs_fcntl", call_fcntl, command, COUNT(command));
}
END_TEST

int main(void)
{
    const TTest *sockets[] = {bind_errors,     bind_addresses, listen_errors, accept_errors, connect_errors,
                              shutdown_errors, close_errors,   closed_twice,  naming_errors};
    Suite *suite = suite_create("errors");
    TCase *bare = add_bare_case(suite, "exs_init", 5), *plain = add_case(suite, "exs_socket", 5);

    tcase_add_test(bare, before_init);
    tcase_add_test(bare, init);
    tcase_add_test(plain, socket_kinds);
    add_world_case(suite, "sockets", sockets, COUNT(sockets));
    return run_suite(suite);
}
