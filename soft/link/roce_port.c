/* SPDX-License-Identifier: BSD-2-Clause */
/* roce_port.c - opening, joining and leaving RoCE's port, and handing its sockets to other processes: roce_port.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <linux/filter.h>
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "roce_port.h"
#include "shm_pass.h"
#include "slow_close.h"
#include "udp.h"

#define ENDING_MS 100 /* how long an exiting process may take to close its sockets */
#define QPN_MASK 0xffffff
#define TURN (-1) /* in place of a share: the name that a joining process binds */

/* ---- Names ---- */

static socklen_t share_name(struct sockaddr_un *un, int share)
{
    char text[64];

    snprintf(text, sizeof text, "exs/roce/%u/%d", (unsigned)geteuid(), share);
    return shm_pass_address(un, text);
}

static int close_unless(int fd, bool well)
{
    int error = errno;

    if (fd == -1 || well)
        return fd;
    fds_close(fd);
    errno = error;
    return -1;
}

static int open_listener(void)
{
    return fds_own_private(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* Connects to the process that has bound the name. -1 and errno: ECONNREFUSED, no process has. */
static int connect_share(int share)
{
    struct sockaddr_un un;
    socklen_t length = share_name(&un, share);
    int fd = open_listener();

    return close_unless(fd, fd != -1 && connect(fd, (struct sockaddr *)&un, length) == 0);
}

/* Binds a name and listens. -1 and errno: EADDRINUSE, a process has it. */
static int take_name(int share)
{
    struct sockaddr_un un;
    socklen_t length = share_name(&un, share);
    int fd = open_listener();

    if (fd != -1)
        slow_close_guard(fd);
    return close_unless(fd, fd != -1 && bind(fd, (struct sockaddr *)&un, length) == 0 &&
                                listen(fd, ROCE_SHARES) == 0);
}

/* Waits until the socket is readable or the other end is closed. False: not before the deadline. */
static bool await_readable(int fd, uint64_t deadline)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int got;

    do {
        got = poll(&one, 1, ns_milliseconds(ns_left(deadline, now_ns())));
    } while (got == -1 && errno == EINTR);
    return got == 1;
}

/* Whether another user has bound this name, as any user can. */
static bool is_foreign(int share)
{
    int fd = connect_share(share);
    bool foreign = fd != -1 && !shm_pass_is_ours(fd);

    if (foreign)
        slow_close(fd);
    else if (fd != -1)
        fds_close(fd);
    return foreign;
}

/* Waits until the process that is joining has finished. False: another user has bound that name, and may keep it. */
static bool await_end(uint64_t deadline)
{
    int other = connect_share(TURN);
    bool ours = other == -1 || shm_pass_is_ours(other);

    if (!ours) {
        slow_close(other);
    } else if (other != -1) {
        (void)await_readable(other, deadline);
        fds_close(other);
    }
    return ours;
}

/* Binds the name that only one process has at a time. Processes that wait connect to it and see when it is closed. -1
 * and errno. */
static int await_turn(void)
{
    uint64_t deadline = ns_after(now_ns(), ROCE_PATIENCE_MS * UINT64_C(1000000));
    int turn = take_name(TURN);

    while (turn == -1 && errno == EADDRINUSE && now_ns() < deadline) {
        if (!await_end(deadline)) {
            errno = EPERM;
            return -1;
        }
        turn = take_name(TURN);
    }
    if (turn == -1 && errno == EADDRINUSE)
        errno = ETIMEDOUT;
    return turn;
}

/* ---- The sockets ---- */

static void close_all(struct roce_port *roce)
{
    for (int share = 0; share < ROCE_SOCKETS; share++)
        for (int family = 0; family < ROCE_FAMILIES; family++) {
            if (roce->fds[share][family] != -1)
                fds_close(roce->fds[share][family]);
            roce->fds[share][family] = -1;
        }
}

static union soft_addr wildcard_address(enum roce_family family)
{
    union soft_addr any = {.in6 = {.sin6_family = family == ROCE_IPV4 ? AF_INET : AF_INET6}};

    any.in.sin_port = htons(SOFT_UDP_PORT); /* at the same place in sockaddr_in6 */
    return any;
}

static bool is_without_ipv6(enum roce_family family, int error)
{
    return family == ROCE_IPV6 && (error == EAFNOSUPPORT || error == EADDRNOTAVAIL);
}

/* Checks that no process has the port, not even one that shares it. 0 or an errno. */
static int try_alone(enum roce_family family)
{
    union soft_addr any = wildcard_address(family);
    struct udp_socket socket;
    int error = udp_socket_open(&socket, &any);

    if (error == 0)
        udp_socket_close(&socket);
    return error;
}

/* Attaches the BPF program that selects a socket. Bytes 4 to 7 of the BTH are 8 other bits and the queue pair's
 * number, whose upper bits are the LID. Number 1 belongs to no LID. */
static int attach_filter(int fd)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QPN_MASK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, ROCE_QP1),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, SOFT_LID_QPNS_BITS),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ROCE_SHARES - 1),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog all = {.len = sizeof program / sizeof *program, .filter = program};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &all, sizeof all) == -1 ? errno : 0;
}

/* Opens all sockets of a family, in order. 0 or an errno. */
static int open_family(struct roce_port *roce, enum roce_family family)
{
    union soft_addr any = wildcard_address(family);
    int error = try_alone(family);

    for (int share = 0; share < ROCE_SOCKETS && error == 0; share++) {
        struct udp_socket socket;

        error = udp_socket_open_shared(&socket, &any);
        if (error == 0)
            roce->fds[share][family] = socket.fd;
    }
    if (error == 0)
        error = attach_filter(roce->fds[0][family]);
    return is_without_ipv6(family, error) ? 0 : error;
}

static int open_all(struct roce_port *roce)
{
    int error = open_family(roce, ROCE_IPV4);

    return error == 0 ? open_family(roce, ROCE_IPV6) : error;
}

/* ---- Handing the sockets on ---- */

void roce_port_answer(struct roce_port *roce)
{
    int guest = slow_close_guard_has_room()
                    ? fds_own_private(accept4(roce->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK))
                    : -1;
    uint8_t families;

    if (guest == -1)
        return;
    if (!shm_pass_is_ours(guest)) {
        slow_close_guarded(guest);
        return;
    }
    families = roce->fds[0][ROCE_IPV6] == -1 ? 1 : 2;
    for (int share = 0; share < ROCE_SOCKETS; share++)
        (void)shm_pass_send(guest, &families, sizeof families, roce->fds[share], families);
    if (roce->table != NULL)
        (void)shm_pass_send(guest, &families, sizeof families, &roce->memory, 1);
    fds_close(guest);
}

static int receive_share(int from, int fds[ROCE_FAMILIES], uint64_t deadline)
{
    uint8_t families;
    ssize_t got;

    if (!await_readable(from, deadline))
        return ETIMEDOUT;
    got = recv(from, &families, sizeof families, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got == -1 && errno == ECONNRESET)) /* it is exiting, perhaps before it accepted us */
        return ESRCH;
    if (got == -1)
        return errno;
    if (families == 0 || families > ROCE_FAMILIES)
        return EPROTO;
    return shm_pass_receive(from, &families, sizeof families, fds, families, families) ? 0 : errno;
}

static void leave_table(struct roce_port *roce)
{
    if (roce->table != NULL)
        roce_table_unmap(roce->table);
    roce->table = NULL;
    if (roce->memory != -1)
        fds_close(roce->memory);
    roce->memory = -1;
}

/* Receives the table. A process of an older release has none, and closes the connection. */
static void receive_table(struct roce_port *roce, int from, uint64_t deadline)
{
    uint8_t families;
    int memory;

    if (!await_readable(from, deadline) || !shm_pass_receive(from, &families, sizeof families, &memory, 1, 1))
        return;
    roce->memory = memory;
    roce->table = roce_table_map(memory);
    if (roce->table == NULL)
        leave_table(roce);
}

/* The first process creates the table. Without a table each name is tried. */
static void make_table(struct roce_port *roce)
{
    roce->memory = roce_table_make();
    if (roce->memory != -1)
        roce->table = roce_table_map(roce->memory);
    if (roce->table == NULL)
        leave_table(roce);
}

/* Receives the sockets and the table from a process that has them. 0 or an errno; all sockets, or none. */
static int receive_all(struct roce_port *roce, int from)
{
    uint64_t deadline = ns_after(now_ns(), ROCE_PATIENCE_MS * UINT64_C(1000000));
    int error = 0;

    for (int share = 0; share < ROCE_SOCKETS && error == 0; share++)
        error = receive_share(from, roce->fds[share], deadline);
    if (error == 0)
        receive_table(roce, from, deadline);
    else
        close_all(roce);
    return error;
}

static void clear_port(struct roce_port *roce)
{
    *roce = (struct roce_port){.listener = -1, .memory = -1};
    for (int share = 0; share < ROCE_SOCKETS; share++)
        roce->fds[share][ROCE_IPV4] = roce->fds[share][ROCE_IPV6] = -1;
}

/* Receives them, in place of those from a process without a table. */
static int take_from(struct roce_port *roce, int from)
{
    struct roce_port other;
    int error;

    clear_port(&other);
    error = receive_all(&other, from);
    if (error == 0) {
        close_all(roce);
        *roce = other;
    }
    return error;
}

/* Asks one process after another, until one sends a table, too: if some use it, all must. 0, or an errno: ESRCH if no
 * process of this user is there. A process whose backlog is full (EAGAIN) counts as none; if it is of this user,
 * opening the port fails, because it has the port. */
static int ask_processes(struct roce_port *roce)
{
    int error = ESRCH;

    for (int share = 0; share < ROCE_SHARES && (error != 0 || roce->table == NULL); share++) {
        int from = connect_share(share), failed = from == -1 ? errno : 0;

        if (from == -1 && failed != ECONNREFUSED && failed != EAGAIN && error != 0)
            error = failed;
        if (from == -1)
            continue;
        if (!shm_pass_is_ours(from)) {
            slow_close(from);
            continue;
        }
        failed = take_from(roce, from);
        if (error != 0)
            error = failed;
        fds_close(from);
    }
    return error;
}

/* Takes the first share that is free. 0 or an errno. */
static int take_share(struct roce_port *roce)
{
    bool foreign = false;

    for (roce->share = 0; roce->share < ROCE_SHARES; roce->share++) {
        roce->listener = take_name((int)roce->share);
        if (roce->listener != -1)
            return 0;
        if (errno != EADDRINUSE)
            return errno;
        foreign = foreign || is_foreign((int)roce->share);
    }
    return foreign ? EPERM : EUSERS;
}

/* Opens the sockets. An exiting process may have closed its listener, and not yet its sockets: tries again for
 * ENDING_MS. */
static int open_or_retry(struct roce_port *roce)
{
    uint64_t deadline = ns_after(now_ns(), ENDING_MS * UINT64_C(1000000));
    int error = open_all(roce);

    while (error == EADDRINUSE && now_ns() < deadline) {
        close_all(roce);
        (void)poll(NULL, 0, 1);
        error = open_all(roce);
    }
    return error;
}

/* Called by the one process that is joining. 0 or an errno. */
static int join_port(struct roce_port *roce)
{
    int error = ask_processes(roce);

    if (error == ESRCH) {
        error = open_or_retry(roce);
        if (error == 0)
            make_table(roce);
    }
    return error == 0 ? take_share(roce) : error;
}

struct roce_port *roce_port_join(void)
{
    struct roce_port *roce = calloc(1, sizeof *roce);
    int turn, error;

    if (roce == NULL)
        return NULL;
    clear_port(roce);
    turn = await_turn();
    error = turn == -1 ? errno : join_port(roce);
    if (turn != -1)
        slow_close_listener(turn);
    if (error == 0)
        return roce;
    roce_port_leave(roce);
    errno = error;
    return NULL;
}

void roce_port_leave(struct roce_port *roce)
{
    close_all(roce);
    leave_table(roce);
    if (roce->listener != -1)
        slow_close_listener(roce->listener);
    free(roce);
}
