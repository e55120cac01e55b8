/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_errors.c - every error that a call itself can return, blocking or not, and that a call which
 * returned one posts no event.
 *
 * The source of each row is the thesis, appendix A, 5.2 and 5.3; where it has none, what the
 * same call of sockets does.
 */
#include "support.h"

#include <fcntl.h>
#include <sys/mman.h>

#define BAD_FLAG 2 /* the thesis's; MSG_PEEK of Linux */
#define ROW(what_, error_, ...)                                                                                \
    {                                                                                                          \
        .what = what_, .error = error_, __VA_ARGS__                                                            \
    }

enum which_socket { CONNECTED, FRESH, BOUND, LISTENING, SHUT, NEGATIVE, UNUSED, FOREIGN, SOCKETS };
enum which_queue { USUAL, NO_QUEUE, INVALID_QUEUE }; /* usual: none with EXS_BLOCK, else a good one */
enum mode { BOTH, ASYNC, BLOCKING };

struct world { /* what the rows choose from; the fixture makes it anew for each test */
    struct pair pair, shut_pair;
    struct inbox box;
    int sockets[SOCKETS];
    char *bytes;
};

struct row {
    const char *what;
    int error, or_error; /* the errno; another one that will do, or 0 */
    enum mode mode;
    enum which_socket socket;
    enum which_queue queue;
    int flags, number; /* number: count of elements, backlog, how */
    bool null;         /* NULL in place of the buffer, the vector, the address */
    size_t length;     /* 0: 100 */
};

static struct world world;

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

/* None of the failed calls may have left an event, or a socket that no longer works. */
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

static exs_qhandle_t queue_of(const struct row *row, int flags)
{
    if (row->queue == INVALID_QUEUE)
        return EXS_QHANDLE_INVALID;
    return row->queue == NO_QUEUE || flags & EXS_BLOCK ? NULL : world.box.queue;
}

typedef long call_fn(const struct row *row, int socket, int flags);

static bool is_either(int error, int this, int that)
{
    return error == this || (that && error == that);
}

/* Report every row that goes wrong, not the first one only. */
static int try_row(const char *function, call_fn *call, const struct row *row, int flags)
{
    errno = 0;
    long result = call(row, world.sockets[row->socket], row->flags | flags);
    if (result == -1 && is_either(errno, row->error, row->or_error))
        return 0;
    fprintf(stderr, "%s, %s, %s: returned %ld with errno %s, want -1 with %s\n", function,
            flags & EXS_BLOCK ? "blocking" : "not blocking", row->what, result, strerrorname_np(errno),
            strerrorname_np(row->error));
    return 1;
}

static void try_rows(const char *function, call_fn *call, const struct row *rows, int count)
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

/* clang-format off */
#define NOT_A_SOCKET                                                                                           \
    ROW("a negative number", EBADF, .socket = NEGATIVE),                                                       \
    ROW("a number that is not open", EBADF, .socket = UNUSED),                                                 \
    ROW("a descriptor that is not ours", EBADF, .socket = FOREIGN)
#define BAD_QUEUES(s)                                                                                          \
    ROW("no queue", EINVAL, .mode = ASYNC, .socket = s, .queue = NO_QUEUE),                                    \
    ROW("an invalid queue", EINVAL, .socket = s, .queue = INVALID_QUEUE)
#define BAD_FLAGS(s, error)                                                                                    \
    ROW("flag 2", error, .socket = s, .flags = BAD_FLAG),                                                      \
    ROW("MSG_OOB", error, .socket = s, .flags = MSG_OOB),                                                      \
    ROW("every flag", error, .or_error = EINVAL, .socket = s, .flags = -1)
#define BAD_TRANSFERS                                                                                          \
    NOT_A_SOCKET,                                                                                              \
    ROW("no buffer", EINVAL, .null = true),                                                                    \
    ROW("more bytes than a transfer may have", EINVAL, .or_error = EMSGSIZE, .length = EXS_MSG_MAX + 1),       \
    ROW("a fresh socket", ENOTCONN, .socket = FRESH),                                                          \
    ROW("a bound socket", ENOTCONN, .socket = BOUND),                                                          \
    ROW("a listening socket", ENOTCONN, .socket = LISTENING)
#define BAD_FILES                                                                                              \
    NOT_A_SOCKET,                                                                                              \
    ROW("no vector", EINVAL, .or_error = EFAULT, .null = true),                                                \
    ROW("0 elements", EINVAL, .number = 99),                                                                   \
    ROW("-1 elements", EINVAL, .number = -1),                                                                  \
    ROW("too many elements", EINVAL, .number = EXS_XFV_MAX + 1),                                               \
    ROW("an element of no type", EINVAL, .length = 77),                                                        \
    ROW("a fresh socket", ENOTCONN, .socket = FRESH),                                                          \
    ROW("a listening socket", ENOTCONN, .socket = LISTENING),                                                  \
    ROW("after a shutdown", EPIPE, .socket = SHUT)
/* clang-format on */

/* ---- Before exs_init ----------------------------------------------------------------- */

/* Any argument may be wrong as well: this error comes first. */
static int calls_that_do_not_say(int error)
{
    struct sockaddr *address = NULL;
    exs_event_t event;
    struct {
        const char *name;
        long result;
        int error;
    } calls[48];
    int count = 0, wrong = 0;

#define TRY(call)                                                                                              \
    errno = 0;                                                                                                 \
    calls[count].result = (long)(call);                                                                        \
    calls[count].name = #call;                                                                                 \
    calls[count++].error = errno
    TRY(exs_socket(PF_INET, SOCK_STREAM, 0));
    TRY(exs_socket(-1, -1, -1));
    TRY(exs_bind(-1, address, 0));
    TRY(exs_listen(-1, -1));
    TRY(exs_accept(-1, NULL, 1, EXS_BLOCK, NULL));
    TRY(exs_accept(-1, NULL, 1, 0, NULL));
    TRY(exs_connect(-1, address, 0, EXS_BLOCK, NULL, NULL, NULL));
    TRY(exs_connect(-1, address, 0, 0, NULL, NULL, NULL));
    TRY(exs_shutdown(-1, SHUT_RDWR, EXS_BLOCK, NULL, NULL));
    TRY(exs_shutdown(-1, SHUT_RDWR, 0, NULL, NULL));
    TRY(exs_close(-1, EXS_BLOCK, NULL, NULL));
    TRY(exs_close(-1, 0, NULL, NULL));
    TRY(exs_fcntl(-1, F_GETFL));
    TRY(exs_getsockname(-1, address, NULL));
    TRY(exs_getpeername(-1, address, NULL));
    TRY(exs_getdevice(-1, NULL, 0));
    TRY(exs_send(-1, "x", 1, EXS_BLOCK, NULL, NULL, NULL));
    TRY(exs_send(-1, "x", 1, 0, NULL, NULL, NULL));
    TRY(exs_recv(-1, &event, sizeof event, EXS_BLOCK, NULL, NULL, NULL));
    TRY(exs_recv(-1, &event, sizeof event, 0, NULL, NULL, NULL));
    TRY(exs_sendfile(-1, NULL, 1, EXS_BLOCK, NULL, NULL));
    TRY(exs_sendfile(-1, NULL, 1, 0, NULL, NULL));
    TRY(exs_mregister(&event, sizeof event, 0));
    TRY(exs_mderegister(NULL, 0));
    TRY(exs_qcreate(10));
    TRY(exs_qdelete(NULL));
    TRY(exs_qdequeue(NULL, &event, 1, &(struct timeval){0, 0}));
    TRY(exs_qfd(NULL));
    TRY(exs_blocking_accept(-1, NULL, NULL));
    TRY(exs_blocking_connect(-1, address, 0));
    TRY(exs_blocking_close(-1));
    TRY(exs_blocking_recv(-1, &event, sizeof event, 0, NULL));
    TRY(exs_blocking_send(-1, "x", 1, 0, NULL));
    TRY(exs_blocking_sendfile(-1, NULL, 1, 0));
    TRY(exs_read(-1, &event, sizeof event));
    TRY(exs_write(-1, "x", 1));
#undef TRY
    for (int i = 0; i < count; i++) {
        if (calls[i].result == -1 && calls[i].error == error)
            continue;
        fprintf(stderr, "%s: %ld with errno %s\n", calls[i].name, calls[i].result,
                strerrorname_np(calls[i].error));
        wrong++;
    }
    return wrong;
}

START_TEST(before_init)
{
    ck_assert_int_eq(calls_that_do_not_say(EPERM), 0);
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
    must_fail(exs_init(EXS_VERSION), EALREADY);
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

    four->sin_addr.s_addr = htonl(0xC0000201); /* 192.0.2.1, of TEST-NET-1: nobody's */
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
        ROW("no address", EINVAL, .null = true, .or_error = EFAULT),
    };
    const struct row peername[] = {
        NOT_A_SOCKET,
        ROW("no address", EINVAL, .null = true, .or_error = EFAULT),
        ROW("a fresh socket", ENOTCONN, .socket = FRESH),
        ROW("a bound socket", ENOTCONN, .socket = BOUND),
        ROW("a listening socket", ENOTCONN, .socket = LISTENING),
    };
    const struct row device[] = {
        NOT_A_SOCKET,
        ROW("no buffer", EINVAL, .null = true),
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

/* ---- Transfers ----------------------------------------------------------------------- */

static size_t length_of(const struct row *row)
{
    return row->number == 99 ? 0 : row->length ? row->length : 100;
}

static long call_recv(const struct row *row, int socket, int flags)
{
    return exs_recv(socket, row->null ? NULL : world.bytes, length_of(row), flags, queue_of(row, flags), NULL,
                    NULL);
}

static long call_blocking_recv(const struct row *row, int socket, int flags)
{
    return exs_blocking_recv(socket, row->null ? NULL : world.bytes, length_of(row), flags, NULL);
}

static long call_read(const struct row *row, int socket, int flags)
{
    (void)flags;
    return exs_read(socket, row->null ? NULL : world.bytes, length_of(row));
}

START_TEST(recv_errors)
{
    const struct row rows[] = {
        BAD_TRANSFERS,
        BAD_QUEUES(CONNECTED),
        BAD_FLAGS(CONNECTED, EOPNOTSUPP),
        ROW("0 bytes", EINVAL, .number = 99),
        ROW("EXS_UNSIGNALED", EOPNOTSUPP, .mode = ASYNC, .flags = EXS_UNSIGNALED),
    };
    const struct row blocking[] = {
        BAD_TRANSFERS,
        BAD_FLAGS(CONNECTED, EOPNOTSUPP),
        ROW("0 bytes", EINVAL, .number = 99),
    };
    const struct row plain[] = {
        BAD_TRANSFERS,
        ROW("0 bytes", EINVAL, .number = 99),
    };

    try_rows("exs_recv", call_recv, rows, COUNT(rows));
    try_rows("exs_blocking_recv", call_blocking_recv, blocking, COUNT(blocking));
    try_rows("exs_read", call_read, plain, COUNT(plain));
}
END_TEST

static long call_send(const struct row *row, int socket, int flags)
{
    return exs_send(socket, row->null ? NULL : world.bytes, length_of(row), flags, queue_of(row, flags), NULL,
                    NULL);
}

static long call_blocking_send(const struct row *row, int socket, int flags)
{
    return exs_blocking_send(socket, row->null ? NULL : world.bytes, length_of(row), flags, NULL);
}

static long call_write(const struct row *row, int socket, int flags)
{
    (void)flags;
    return exs_write(socket, row->null ? NULL : world.bytes, length_of(row));
}

START_TEST(send_errors)
{
    const struct row rows[] = {
        BAD_TRANSFERS,
        BAD_QUEUES(CONNECTED),
        BAD_FLAGS(CONNECTED, EOPNOTSUPP),
        ROW("MSG_WAITALL", EOPNOTSUPP, .flags = MSG_WAITALL),
        ROW("unsignaled, and an invalid queue", EINVAL, .mode = ASYNC, .queue = INVALID_QUEUE,
            .flags = EXS_UNSIGNALED),
        ROW("unsignaled and blocking", EINVAL, .mode = BLOCKING, .flags = EXS_UNSIGNALED),
        ROW("after a shutdown", EPIPE, .socket = SHUT),
        ROW("after a shutdown, unsignaled", EPIPE, .mode = ASYNC, .socket = SHUT, .flags = EXS_UNSIGNALED),
    };
    const struct row blocking[] = {
        BAD_TRANSFERS,
        BAD_FLAGS(CONNECTED, EOPNOTSUPP),
        ROW("unsignaled", EINVAL, .flags = EXS_UNSIGNALED),
        ROW("after a shutdown", EPIPE, .socket = SHUT),
    };
    const struct row plain[] = {
        BAD_TRANSFERS,
        ROW("after a shutdown", EPIPE, .socket = SHUT),
    };

    try_rows("exs_send", call_send, rows, COUNT(rows));
    try_rows("exs_blocking_send", call_blocking_send, blocking, COUNT(blocking));
    try_rows("exs_write", call_write, plain, COUNT(plain));
}
END_TEST

/* length: the type of the elements; EXS_IOVEC where there is none. */
static void elements_of(const struct row *row, exs_xferfile_t *elements, int count)
{
    for (int i = 0; i < count; i++) {
        elements[i].exs_xfv_type = row->length ? (int)row->length : EXS_IOVEC;
        elements[i].exs_xfv.exs_iov = (exs_iovec_t){.exs_base = world.bytes, .exs_length = 1};
    }
}

static int element_count(const struct row *row)
{
    return row->number == 99 ? 0 : row->number ? row->number : 1;
}

static long call_sendfile(const struct row *row, int socket, int flags)
{
    exs_xferfile_t elements[EXS_XFV_MAX + 1];

    elements_of(row, elements, COUNT(elements));
    return exs_sendfile(socket, row->null ? NULL : elements, element_count(row), flags, queue_of(row, flags),
                        NULL);
}

static long call_blocking_sendfile(const struct row *row, int socket, int flags)
{
    exs_xferfile_t elements[EXS_XFV_MAX + 1];

    elements_of(row, elements, COUNT(elements));
    return exs_blocking_sendfile(socket, row->null ? NULL : elements, element_count(row), flags);
}

START_TEST(sendfile_errors)
{
    const struct row rows[] = {
        BAD_FILES,
        BAD_QUEUES(CONNECTED),
        BAD_FLAGS(CONNECTED, EINVAL),
        ROW("MSG_WAITALL", EINVAL, .flags = MSG_WAITALL),
        ROW("unsignaled and blocking", EINVAL, .mode = BLOCKING, .flags = EXS_UNSIGNALED),
    };
    const struct row blocking[] = {
        BAD_FILES,
        BAD_FLAGS(CONNECTED, EINVAL),
        ROW("unsignaled", EINVAL, .flags = EXS_UNSIGNALED),
    };

    try_rows("exs_sendfile", call_sendfile, rows, COUNT(rows));
    try_rows("exs_blocking_sendfile", call_blocking_sendfile, blocking, COUNT(blocking));
}
END_TEST

/* ---- Memory -------------------------------------------------------------------------- */

START_TEST(register_errors)
{
    exs_mhandle_t none = EXS_MHANDLE_INVALID;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(map, MAP_FAILED);
    must_fail(exs_mregister(world.bytes, 0, 0), EINVAL);
    must_fail(exs_mregister(NULL, 100, 0), EINVAL);
    must_fail(exs_mregister(world.bytes, 100, 0x40000000), EINVAL);
    must_fail(exs_mregister(world.bytes, 100, -1), EINVAL);
    must_fail(exs_mregister(map, 2 * page, 0), EACCES);
    ck_assert_msg(exs_mregister(world.bytes, SIZE_MAX, 0) == none, "a region as large as all memory");
    exs_mhandle_t readable = exs_mregister(map, 2 * page, EXS_MRF_RECV_DISABLE);
    ck_assert_msg(readable != none, "read-only memory to send from: %s", strerror(errno));
    must(exs_mderegister(readable, 0));
    must(mprotect(map, page, PROT_NONE));
    must_fail(exs_mregister(map, 2 * page, EXS_MRF_RECV_DISABLE), EACCES);
    munmap(map, 2 * page);
}
END_TEST

START_TEST(deregister_errors)
{
    exs_mhandle_t region = exs_mregister(world.bytes, 100, 0);

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    must_fail(exs_mderegister(NULL, 0), EINVAL);
    must_fail(exs_mderegister(EXS_MHANDLE_INVALID, 0), EINVAL);
    must_fail(exs_mderegister(EXS_MHANDLE_UNREGISTERED, 0), EINVAL);
    must_fail(exs_mderegister((exs_mhandle_t)(void *)world.bytes, 0), EINVAL);
    must_fail(exs_mderegister(region, BAD_FLAG), EINVAL);
    must(exs_mderegister(region, 0));
    must_fail(exs_mderegister(region, 0), EINVAL);
}
END_TEST

START_TEST(region_in_use)
{
    struct pair *pair = &world.pair;
    exs_mhandle_t region = exs_mregister(world.bytes, 100, 0);

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    must(exs_recv(pair->client, world.bytes, 100, MSG_WAITALL, world.box.queue, NULL, region));
    must_fail(exs_mderegister(region, 0), EBUSY);
    must(exs_send(pair->server, "the first half of a hundred bytes, and then the rest of them......", 50,
                  EXS_UNSIGNALED, NULL, NULL, NULL));
    must_fail(exs_mderegister(region, 0), EBUSY);
    must(exs_send(pair->server, "the second half of a hundred bytes, and then nothing more.........", 50,
                  EXS_UNSIGNALED, NULL, NULL, NULL));
    world.box.beside = pair->server_box;
    take_good(&world.box, EXS_EVT_RECV, pair->client);
    must(exs_mderegister(region, 0));
}
END_TEST

static long send_from(exs_mhandle_t region, char *bytes)
{
    return exs_send(world.pair.client, bytes, 100, 0, world.box.queue, NULL, region);
}

static long recv_into(exs_mhandle_t region, char *bytes)
{
    return exs_recv(world.pair.client, bytes, 100, 0, world.box.queue, NULL, region);
}

START_TEST(wrong_regions)
{
    char memory[400] = {0};
    exs_mhandle_t region = exs_mregister(memory + 100, 200, 0);
    exs_mhandle_t out = exs_mregister(memory, 400, EXS_MRF_RECV_DISABLE);
    exs_mhandle_t in = exs_mregister(memory, 400, EXS_MRF_SEND_DISABLE);

    ck_assert(region != EXS_MHANDLE_INVALID && in != EXS_MHANDLE_INVALID && out != EXS_MHANDLE_INVALID);
    for (int i = 0; i < 2; i++) {
        long (*call)(exs_mhandle_t, char *) = i ? send_from : recv_into;
        must_fail(call(EXS_MHANDLE_INVALID, memory), EINVAL);
        must_fail(call(region, memory), EINVAL);
        must_fail(call(region, memory + 99), EINVAL);
        must_fail(call(region, memory + 201), EINVAL);
        ck_assert_int_eq(call(i ? in : out, memory), -1);
        ck_assert(is_either(errno, EACCES, EINVAL));
    }
    must(exs_mderegister(region, 0));
    must(exs_mderegister(in, 0));
    must(exs_mderegister(out, 0));
}
END_TEST

/* ---- Queues -------------------------------------------------------------------------- */

START_TEST(queue_errors)
{
    exs_event_t events[2];
    struct timeval now = {0, 0}, never = {0, -1};
    exs_qhandle_t queue = exs_qcreate(0),
                  nothings[] = {NULL, EXS_QHANDLE_INVALID, (exs_qhandle_t)(void *)events, 0};

    ck_assert_ptr_ne(queue, EXS_QHANDLE_INVALID);
    must_fail(exs_qcreate(-1), EINVAL);
    must_fail(exs_qcreate(EXS_QDEPTH_MAX + 1), EINVAL);
    must_fail(exs_qdequeue(queue, events, 0, &now), EINVAL);
    must_fail(exs_qdequeue(queue, events, -1, &now), EINVAL);
    must_fail(exs_qdequeue(queue, events, EXS_EVTVEC_MAX + 1, &now), EINVAL);
    must_fail(exs_qdequeue(queue, NULL, 2, &now), EFAULT);
    must_fail(exs_qdequeue(queue, events, 2, &never), EFAULT);
    must(exs_qdelete(queue));
    nothings[3] = queue;
    for (int i = 0; i < COUNT(nothings); i++) {
        must_fail(exs_qdelete(nothings[i]), EINVAL);
        must_fail(exs_qfd(nothings[i]), EINVAL);
        must_fail(exs_qdequeue(nothings[i], events, 2, &now), EINVAL);
    }
}
END_TEST

START_TEST(queue_in_use)
{
    struct pair *pair = &world.pair;
    exs_event_t event;

    must_fail(exs_qdelete(pair->client_box->queue), EBUSY); /* a connection lives on it */
    must(exs_recv(pair->client, world.bytes, 100, 0, world.box.queue, NULL, NULL));
    must_fail(exs_qdelete(world.box.queue), EBUSY);
    must(exs_send(pair->server, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    world.box.beside = pair->server_box;
    event = take_good(&world.box, EXS_EVT_RECV, pair->client);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 1);
}
END_TEST

static void with_world(Suite *suite, const char *name, const TTest *const *tests, int count)
{
    TCase *rows = add_bare_case(suite, name, 20);

    tcase_add_checked_fixture(rows, world_open, world_close);
    for (int i = 0; i < count; i++)
        tcase_add_test(rows, tests[i]);
}

int main(void)
{
    const TTest *sockets[] = {bind_errors,     bind_addresses, listen_errors, accept_errors, connect_errors,
                              shutdown_errors, close_errors,   closed_twice,  naming_errors};
    const TTest *transfers[] = {recv_errors, send_errors, sendfile_errors};
    const TTest *memory[] = {register_errors, deregister_errors, region_in_use, wrong_regions};
    const TTest *queues[] = {queue_errors, queue_in_use};
    Suite *suite = suite_create("errors");
    TCase *bare = add_bare_case(suite, "exs_init", 5), *plain = add_case(suite, "exs_socket", 5);

    tcase_add_test(bare, before_init);
    tcase_add_test(bare, init);
    tcase_add_test(plain, socket_kinds);
    with_world(suite, "sockets", sockets, COUNT(sockets));
    with_world(suite, "transfers", transfers, COUNT(transfers));
    with_world(suite, "memory", memory, COUNT(memory));
    with_world(suite, "queues", queues, COUNT(queues));
    return run_suite(suite);
}
