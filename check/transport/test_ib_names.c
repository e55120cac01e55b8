/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_names.c - another user of the host has bound the abstract socket names by which the processes of one user
 * pass the datagrams of RoCE's port to each other. That user must not receive any of them; the most that it can achieve
 * is that a listener's rdma_listen() fails.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "check/support/abstract.h"
#include "check/support/ibpeer.h"
#include "check/support/processes.h"
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "soft/cm/ib_pass.h"
#include "soft/cm/cm_id.h"
#include "soft/link/shm_pass.h"

#define ANOTHER 65534
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#define VISITS 40 /* enough that each of two programs reads some of the packets */
#define FEW 1024  /* descriptors; more than the lowest number of the library's private ones */
/* ns after connecting in which a datagram must be accepted; the receiver waits twice as long. */
#define SPEAKS_NS 25000000

/* ---- The other user's process ---- */

struct squatter {
    pid_t pid;
    int line; /* the process holds the names until this is closed */
};

/* Has any datagram arrived at these sockets? */
static bool has_heard(int datagrams, int inbox)
{
    uint8_t bytes[1024];
    bool heard = recv(datagrams, bytes, sizeof bytes, 0) > 0;
    int guest;

    while ((guest = accept(inbox, NULL, NULL)) != -1) {
        heard |= recv(guest, bytes, sizeof bytes, 0) > 0;
        close(guest);
    }
    return heard;
}

static _Noreturn void sit(const char *name, bool full, int line)
{
    struct pollfd end = {.fd = line};
    int datagrams, inbox;

    if (setuid(ANOTHER) == -1)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    datagrams = abstract_take(name, SOCK_DGRAM | SOCK_NONBLOCK);
    inbox = abstract_take(name, SOCK_SEQPACKET | SOCK_NONBLOCK);
    ck_assert_int_eq(listen(inbox, full ? 0 : 1024), 0);
    if (full) /* one connection that is not accepted fills the queue */
        ck_assert_int_ne(abstract_visit(name), -1);
    if (write(line, "", 1) != 1 || poll(&end, 1, -1) != 1)
        _exit(1);
    _exit(!full && has_heard(datagrams, inbox) ? 2 : 0);
}

static struct squatter squat(const struct ib_pass_name *name, bool full)
{
    struct squatter squatter;
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    squatter.line = ends[0];
    squatter.pid = fork();
    if (squatter.pid == 0) {
        close(ends[0]);
        sit(name->text, full, ends[1]);
    }
    close(ends[1]);
    await_byte(squatter.line);
    return squatter;
}

static void leaves_in_vain(const struct squatter *squatter)
{
    close(squatter->line);
    process_join(squatter->pid);
}

/* Only root can act as another user. */
static bool is_root(void)
{
    return seteuid(ANOTHER) == 0 && seteuid(0) == 0;
}

/* ---- Names that the other user holds ---- */

/* The other user has the name of a listener at the specific address. The library's listener at the wildcard address
 * still receives requests. `_i`: the other process has room at its inbox, or its inbox is full. */
START_TEST(a_closer_name)
{
    union soft_addr near = ib_at(TWONETS_NEAR, PORT);
    struct ib_pass_name name = ib_pass_to_listener(IB_SPACE_TCP, &near, htons(PORT));
    struct squatter squatter = squat(&name, _i == 1);
    pid_t server = start_server("0.0.0.0", PORT), other = start_server("0.0.0.0", PORT + 1);

    for (uint32_t number = 1; number <= VISITS; number++)
        peer_visits(PORT, number);
    process_kill(other);
    process_kill(server);
    leaves_in_vain(&squatter);
}
END_TEST

/* Sends a request for a listener of another process. */
static struct ib_message ask_for_another(void)
{
    struct ib_message req = peer_request(PORT);

    peer_says(&req);
    return req;
}

static void is_passed_to(int inbox, const struct ib_message *req)
{
    struct ib_message message;
    uint8_t mad[IB_MAD_BYTES];
    struct soft_path path;

    await_fd(inbox);
    ck_assert_int_eq(ib_pass_receive(inbox, &path, mad), 1);
    ck_assert(ib_decode(&message, mad));
    ck_assert_uint_eq(message.type, IB_REQ);
    ck_assert_uint_eq(message.local_id, req->local_id);
}

/* The same if no other process reads RoCE's port: the listener receives the first request. */
START_TEST(a_closer_door_that_is_full)
{
    union soft_addr near = ib_at(TWONETS_NEAR, PORT), any = ib_at("0.0.0.0", PORT);
    struct ib_pass_name name = ib_pass_to_listener(IB_SPACE_TCP, &near, htons(PORT)),
                        own = ib_pass_to_listener(IB_SPACE_TCP, &any, htons(PORT));
    struct squatter squatter = squat(&name, true);
    struct rdma_cm_id *id = listen_on("0.0.0.0", PORT + 1);
    int inbox = ib_pass_open(&own);
    struct ib_message req;

    ck_assert_int_ne(inbox, -1);
    req = ask_for_another();
    is_passed_to(inbox, &req);
    fds_close(inbox);
    end_id(id);
    leaves_in_vain(&squatter);
}
END_TEST

/* The name of the listener itself: other processes could never pass it a datagram, so rdma_listen() fails with
 * EADDRINUSE, as for a port that is in use. */
START_TEST(its_own_name)
{
    union soft_addr near = ib_at(TWONETS_NEAR, PORT);
    struct ib_pass_name name = ib_pass_to_listener(IB_SPACE_TCP, &near, htons(PORT));
    struct squatter squatter = squat(&name, _i == 1);
    struct rdma_cm_id *id;

    ck_assert_int_eq(soft_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(soft_bind_addr(id, &near.sa), 0);
    ck_assert_int_eq(soft_listen(id, 8), -1);
    ck_assert_int_eq(errno, EADDRINUSE);
    ck_assert_int_eq(soft_destroy_id(id), 0);
    leaves_in_vain(&squatter);
    end_id(listen_at(TWONETS_NEAR));
}
END_TEST

/* The name may be held by another program of the same user: the wildcard listeners of IPv4 and IPv6 have the same
 * name. */
START_TEST(a_name_that_is_ours)
{
    struct rdma_cm_id *first = listen_at("0.0.0.0"), *second;
    union soft_addr any = ib_at("::", PORT);
    int on = 1;

    ck_assert_int_eq(soft_create_id(channel, &second, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(soft_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on), 0);
    ck_assert_int_eq(soft_bind_addr(second, &any.sa), 0);
    ck_assert_int_eq(soft_listen(second, 8), 0);
    end_id(first);
    end_id(second);
}
END_TEST

/* The inbox of a program of the same user is full: a datagram for it is lost, and the peer may repeat it. The peer is
 * not told that there is no such listener. */
START_TEST(a_door_that_is_full)
{
    union soft_addr near = ib_at(TWONETS_NEAR, PORT), far = ib_at(TWONETS_FAR, PORT);
    const struct soft_path path = {.local = near, .remote = far};
    struct ib_pass_name name = ib_pass_to_listener(IB_SPACE_TCP, &near, htons(PORT));
    struct rdma_cm_id *id = listen_on("0.0.0.0", PORT + 1);
    struct ib_message own = peer_request(PORT + 1), req;
    uint8_t mad[IB_MAD_BYTES] = {0};
    enum ib_passed passed;
    struct soft_path from;
    int inbox, count = 0;

    ck_assert_int_eq(ib_pass_on(&name, &path, mad), IB_NOBODY);
    inbox = ib_pass_open(&name);
    ck_assert_int_ne(inbox, -1);
    while ((passed = ib_pass_on(&name, &path, mad)) == IB_PASSED)
        ck_assert_int_lt(count++, 1000);
    ck_assert_int_eq(passed, IB_LOST);
    (void)ask_for_another();
    own.local_id = NUMBER + 1;
    peer_says(&own);
    end_id(take_request());
    ck_assert_uint_eq(peer_hears_any().remote_id, own.local_id); /* and no answer to the other request */
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(ib_pass_receive(inbox, &from, mad), 1);
    req = ask_for_another();
    is_passed_to(inbox, &req);
    fds_close(inbox);
    end_id(id);
}
END_TEST

/* ---- Datagrams that the other user sends ---- */

/* Sends a REQ to a listener's inbox, as a process of the library passes it on. The receiver must wait for it although
 * it is sent a little after connecting; an exception is made if this process was kept from running. */
static _Noreturn void say(const char *name, bool as_another)
{
    union soft_addr near = ib_at(TWONETS_NEAR, SOFT_UDP_PORT), far = ib_at(TWONETS_FAR, SOFT_UDP_PORT);
    struct ib_message req = peer_request(PORT);
    bool heard = true;
    struct {
        uint32_t version;
        union soft_addr local, remote;
        uint8_t mad[IB_MAD_BYTES];
    } said = {.version = 1, .local = near, .remote = far};

    ib_encode(&req, said.mad);
    if (as_another && setuid(ANOTHER) == -1)
        _exit(1);
    for (int i = 0; i < VISITS; i++) {
        uint64_t began = now_ns();
        int fd = abstract_visit(name);

        if (fd == -1)
            _exit(2);
        (void)poll(NULL, 0, 5); /* so that the connection is accepted first */
        heard &= send(fd, &said, sizeof said, MSG_NOSIGNAL) == sizeof said || now_ns() - began > SPEAKS_NS;
        close(fd);
    }
    _exit(as_another || heard ? 0 : 3);
}

/* A datagram from a process of the same user is processed, one from another user is not. */
START_TEST(somebody_says)
{
    union soft_addr near = ib_at(TWONETS_NEAR, PORT);
    struct ib_pass_name name = ib_pass_to_listener(IB_SPACE_TCP, &near, htons(PORT));
    bool as_another = _i == 1;
    pid_t server = start_server(TWONETS_NEAR, PORT), pid = fork();
    struct ib_message answer;

    if (pid == 0)
        say(name.text, as_another);
    process_join(pid);
    if (as_another) {
        peer_hears_nothing();
    } else {
        do
            answer = peer_hears_any(); /* an MRA is possible, because the request is repeated so often */
        while (answer.type == IB_MRA);
        ck_assert_uint_eq(answer.type, IB_REP);
        ck_assert_uint_eq(answer.remote_id, NUMBER);
    }
    process_kill(server);
}
END_TEST

/* ---- Descriptors that the other user sends ---- */

/* SO_PASSRIGHTS exists since Linux 6.16. */
static bool can_guard(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), none = 0;
    bool can = setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &none, sizeof none) == 0;

    ck_assert(can || errno == ENOPROTOOPT);
    close(fd);
    return can;
}

/* Sends a descriptor, which the receiver would have to close. */
static _Noreturn void bring(const char *name)
{
    const int brought = STDERR_FILENO;
    int fd;

    if (setuid(ANOTHER) == -1)
        _exit(1);
    fd = abstract_visit(name);
    if (fd == -1)
        _exit(2);
    if (shm_pass_send(fd, "", 1, &brought, 1))
        _exit(3);
    _exit(errno == EPERM ? 0 : 4);
}

/* At the inbox of a listener, of a share's connections, and of a share: if the kernel supports SO_PASSRIGHTS, it
 * refuses the descriptor, also on a connection that is not accepted yet. */
START_TEST(somebody_brings)
{
    union soft_addr near = ib_at(TWONETS_NEAR, PORT);
    const struct ib_pass_name names[] = {
        ib_pass_to_listener(IB_SPACE_TCP, &near, htons(PORT)), ib_pass_to_share(0), {.text = "exs/roce/0/0"}};
    pid_t server, pid;

    if (!can_guard())
        return;
    server = start_server(TWONETS_NEAR, PORT);
    process_stop(server);
    pid = fork();
    if (pid == 0)
        bring(names[_i].text);
    process_join(pid);
    process_kill(server);
}
END_TEST

/* ---- No descriptor is free ---- */

static void allow_few_descriptors(void)
{
    const struct rlimit few = {FEW, FEW};

    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static void use_up_descriptors(void)
{
    allow_few_descriptors();
    while (dup(STDERR_FILENO) != -1)
        ;
    ck_assert_int_eq(errno, EMFILE);
}

/* Rejects all requests. A byte on `line` makes the process use up its descriptors first. */
static _Noreturn void refuse_all(unsigned port, int line)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    channel = soft_create_event_channel();
    (void)listen_on("0.0.0.0", port);
    (void)!write(line, "", 1);
    await_byte(line);
    use_up_descriptors();
    (void)!write(line, "", 1);
    for (;;) {
        struct rdma_cm_id *id = take_request();

        ck_assert_int_eq(soft_reject(id, "no", 2), 0);
        end_id(id);
    }
}

static pid_t start_refuser(unsigned port, int *line)
{
    int ends[2];
    pid_t pid;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *line = ends[0];
    pid = fork();
    if (pid == 0)
        refuse_all(port, ends[1]);
    close(ends[1]);
    await_byte(*line);
    return pid;
}

/* Each program reads some requests of the other one, and passes them on without a free descriptor. */
START_TEST(no_descriptors)
{
    int lines[2];
    pid_t first = start_refuser(PORT, &lines[0]), second = start_refuser(PORT + 1, &lines[1]);

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(write(lines[i], "", 1), 1);
        await_byte(lines[i]);
        close(lines[i]);
    }
    for (uint32_t number = 1; number <= VISITS; number++) {
        struct ib_message req = peer_request(PORT + number % 2), rej;

        req.local_id = NUMBER + number;
        req.req.qpn = IBWORDS_QPN + number;
        rej = peer_asks(&req);
        ck_assert_uint_eq(rej.type, IB_REJ);
        ck_assert_uint_ne(rej.rej.reason, IB_INVALID_SERVICE);
    }
    process_kill(second);
    process_kill(first);
}
END_TEST

/* When a connection of another user is refused, its descriptor is free for the next connection before another thread of
 * the program can get it. */
START_TEST(a_stranger_at_the_last_descriptor)
{
    const struct soft_path path = {.local = ib_at(TWONETS_NEAR, PORT), .remote = ib_at(TWONETS_FAR, PORT)};
    const struct ib_pass_name name = ib_pass_to_listener(IB_SPACE_TCP, &path.local, htons(PORT));
    int inbox, stranger, first;
    uint8_t mad[IB_MAD_BYTES] = {0};
    struct soft_path from;

    /* First, because the limit determines the numbers of the library's private descriptors. */
    allow_few_descriptors();
    inbox = ib_pass_open(&name);
    ck_assert_int_ne(inbox, -1);
    if (!can_guard()) /* then the library refuses the connection only later */
        return;
    ck_assert_int_eq(seteuid(ANOTHER), 0);
    stranger = abstract_visit(name.text);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_ne(stranger, -1);
    ck_assert_int_eq(ib_pass_on(&name, &path, mad), IB_PASSED);
    first = dup(STDERR_FILENO);
    use_up_descriptors();
    ck_assert_int_eq(ib_pass_receive(inbox, &from, mad), 0);
    ck_assert_int_eq(dup(STDERR_FILENO), -1);
    ck_assert_int_eq(ib_pass_receive(inbox, &from, mad), 1);
    while (first < FEW) /* code that runs at exit may need some */
        close(first++);
    close(stranger);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("names that another user has taken");
    TCase *tcase = ib_case(suite, "names that another user has taken"), *bare = new_case(suite, "bare");

    if (is_root()) {
        tcase_add_loop_test(tcase, a_closer_name, 0, 2);
        tcase_add_test(tcase, a_closer_door_that_is_full);
        tcase_add_loop_test(tcase, its_own_name, 0, 2);
        tcase_add_loop_test(tcase, somebody_brings, 0, 3);
        tcase_add_test(bare, a_stranger_at_the_last_descriptor);
    }
    tcase_add_loop_test(tcase, somebody_says, 0, is_root() ? 2 : 1);
    tcase_add_test(tcase, a_name_that_is_ours);
    tcase_add_test(tcase, a_door_that_is_full);
    tcase_add_test(tcase, no_descriptors);
    return suite;
}

int main(void)
{
    return ib_main(suite);
}
