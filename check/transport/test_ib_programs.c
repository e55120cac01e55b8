/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_programs.c - several programs share RoCE's port: whichever of them reads a message, the program that it is
 * for gets it, also when programs exit or are stopped.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include "check/support/ibpeer.h"
#include "check/support/processes.h"
#include "soft/cm/cm_id.h"

/* Whichever program reads a message, the one that it is for gets it. */
START_TEST(several_programs)
{
    struct {
        const char *text;
        unsigned port;
        pid_t pid;
    } servers[] = {{"0.0.0.0", PORT, 0}, {TWONETS_NEAR, PORT + 1, 0}, {"::", PORT + 2, 0}};
    enum { SERVERS = sizeof servers / sizeof *servers };
    struct ib_message req;
    uint32_t number = 0;

    for (int i = 0; i < SERVERS; i++)
        servers[i].pid = start_server(servers[i].text, servers[i].port);
    for (int gone = 0; gone < SERVERS; gone++) {
        for (int round = 0; round < 8; round++)
            for (int i = gone; i < SERVERS; i++)
                peer_visits(servers[i].port, ++number);
        process_kill(servers[gone].pid);
        if (gone == SERVERS - 1)
            break;
        req = peer_request(servers[gone].port);
        req.local_id = NUMBER + ++number;
        peer_says(&req);
        ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    }
}
END_TEST

/* A program has sent its REP and is killed before the peer's RTU. Another program at the port then answers in its
 * place, and the next listener gets the repeated request. */
START_TEST(a_program_dies_in_a_handshake)
{
    pid_t other = start_server("0.0.0.0", PORT + 1), dying = start_server("0.0.0.0", PORT);
    struct ib_message req = peer_request(PORT), rep, message;

    peer_says(&req);
    rep = peer_hears(IB_REP);
    process_kill(dying);
    peer.number = rep.local_id;
    message = peer_answer(IB_RTU);
    peer_says(&message); /* no program takes it */
    peer_visits(PORT + 1, 1);
    message = peer_answer(IB_DREQ);
    message.dreq.qpn = rep.rep.qpn;
    peer_says(&message);
    ck_assert_uint_eq(peer_hears(IB_DREP).remote_id, NUMBER);
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    dying = start_server("0.0.0.0", PORT);
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REP).remote_id, NUMBER);
    peer_visits(PORT + 1, 2);
    process_kill(dying);
    process_kill(other);
}
END_TEST

/* Starts a program that accepts the first request and closes its listener: late: once connected, otherwise at once. It
 * writes a byte to *ready after each step. */
static pid_t start_server_once(int *ready, bool late)
{
    int ends[2];
    struct rdma_cm_id *listener, *id;
    pid_t pid;

    ck_assert_int_eq(pipe(ends), 0);
    pid = fork();
    if (pid > 0) {
        close(ends[1]);
        *ready = ends[0];
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    channel = soft_create_event_channel();
    listener = listen_on("0.0.0.0", PORT);
    (void)!write(ends[1], "", 1);
    id = take_request();
    make_id_qp(id);
    ck_assert_int_eq(soft_accept(id, NULL), 0);
    if (!late)
        end_id(listener);
    (void)!write(ends[1], "", 1);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_ESTABLISHED), 0);
    if (late)
        end_id(listener);
    (void)!write(ends[1], "", 1);
    ck_assert_int_eq(status_of(RDMA_CM_EVENT_DISCONNECTED), 0);
    end_id(id);
    _exit(0);
}

/* The peer has received the REP, and sends its RTU. */
static void peer_takes(const struct ib_message *rep)
{
    struct ib_message rtu;

    peer.number = rep->local_id;
    rtu = peer_answer(IB_RTU);
    peer_says(&rtu);
}

/* The peer ends its connection, which was the last of the program `once`. */
static void ends_in_order(pid_t once, int ready, const struct ib_message *rep)
{
    struct ib_message dreq = peer_answer(IB_DREQ), message;

    dreq.dreq.qpn = rep->rep.qpn;
    peer_says(&dreq);
    do
        message = peer_hears_any(); /* perhaps the REP, which is repeated until the RTU arrives */
    while (message.type == IB_REP);
    ck_assert_uint_eq(message.type, IB_DREP);
    process_join(once);
    close(ready);
}

/* A REQ is repeated after its listener was closed, or another one was opened: whichever program reads it, the one that
 * has the connection answers, as before. */
START_TEST(a_listener_has_gone)
{
    int ready;
    pid_t other = start_server("0.0.0.0", PORT + 1), next = 0, once = start_server_once(&ready, false);
    struct ib_message req = peer_request(PORT), rep, message;

    await_byte(ready);
    peer_says(&req);
    rep = peer_hears(IB_REP);
    await_byte(ready);
    if (_i == 1)
        next = start_server("0.0.0.0", PORT);
    for (int i = 0; i < 40; i++) {
        peer_says(&req);
        message = peer_hears(IB_REP);
        ck_assert_mem_eq(&message, &rep, sizeof rep);
    }
    peer_takes(&rep);
    await_byte(ready);
    ends_in_order(once, ready, &rep);
    if (_i == 1) {
        peer_visits(PORT, 1);
        process_kill(next);
    }
    req.local_id += 2; /* a REQ for another connection is rejected */
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    process_kill(other);
}
END_TEST

/* The same when the connection is established: a REJ for the missing listener would end it, and another listener would
 * take the REQ for a new connection. */
START_TEST(a_listener_has_gone_since)
{
    int ready;
    pid_t other = start_server("0.0.0.0", PORT + 1), next = 0, once = start_server_once(&ready, true);
    struct ib_message req = peer_request(PORT), rep;

    await_byte(ready);
    peer_says(&req);
    rep = peer_hears(IB_REP);
    await_byte(ready);
    peer_takes(&rep);
    await_byte(ready);
    if (_i == 1)
        next = start_server("0.0.0.0", PORT);
    for (int i = 0; i < 40; i++)
        peer_says(&req);
    peer_hears_nothing();
    ends_in_order(once, ready, &rep);
    if (_i == 1) {
        process_kill(next);
    }
    process_kill(other);
}
END_TEST

/* Starts a program that receives one SIDR_REQ and closes its listener, after its reply if `answered`, otherwise before.
 * It writes a byte to *line; a byte from there makes it reply, and another one makes it exit. */
static pid_t start_asked_once(int *line, bool answered)
{
    int ends[2];
    struct rdma_cm_id *listener, *id;
    pid_t pid;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid = fork();
    if (pid > 0) {
        close(ends[1]);
        *line = ends[0];
        await_byte(*line);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    channel = soft_create_event_channel();
    listener = listen_on("0.0.0.0", PORT);
    (void)!write(ends[1], "", 1);
    id = take_request();
    make_id_qp(id);
    if (answered)
        ck_assert_int_eq(soft_accept(id, NULL), 0);
    end_id(listener);
    (void)!write(ends[1], "", 1);
    await_byte(ends[1]);
    if (!answered) {
        ck_assert_int_eq(soft_accept(id, NULL), 0);
        await_byte(ends[1]);
    }
    end_id(id);
    _exit(0);
}

/* The same for SIDR: the program that received the request, whether it has replied or not, answers when it is repeated.
 * No other program replies that there is no such service, or replies as its server. */
START_TEST(a_listener_for_datagrams_has_gone)
{
    bool answered = _i & 1, another = _i & 2;
    struct ib_message asks = peer_question(PORT), reply, again;
    pid_t other, next = 0, once;
    int line;

    space = RDMA_PS_UDP;
    other = start_server("0.0.0.0", PORT + 1);
    once = start_asked_once(&line, answered);
    peer_says(&asks);
    await_byte(line);
    if (another)
        next = start_server("0.0.0.0", PORT);
    if (!answered) {
        for (int i = 0; i < 40; i++)
            peer_says(&asks);
        peer_hears_nothing();
        ck_assert_int_eq(write(line, "", 1), 1);
    }
    reply = peer_hears(IB_SIDR_REP);
    ck_assert_uint_eq(reply.sidr_rep.status, IB_SIDR_VALID);
    ck_assert_uint_eq(reply.private_data[0], 0); /* the reply is not that of another listener */
    for (int i = 0; i < 40; i++) {
        peer_says(&asks);
        again = peer_hears(IB_SIDR_REP);
        ck_assert_mem_eq(&again, &reply, sizeof reply);
    }
    asks.local_id += 2; /* another request */
    peer_says(&asks);
    do
        again = peer_hears(IB_SIDR_REP); /* perhaps a reply to an earlier request that was read only now */
    while (again.local_id == reply.local_id);
    ck_assert_uint_eq(again.sidr_rep.status, another ? IB_SIDR_VALID : IB_SIDR_UNSUPPORTED);
    ck_assert_int_eq(write(line, "", 1), 1);
    process_join(once);
    close(line);
    if (another) {
        process_kill(next);
    }
    process_kill(other);
}
END_TEST

/* Another host sends the peer's node GUID and a communication ID that the peer uses later. That does not keep the
 * peer's request from its listener. The other host needs to receive no answer, and need not exist. */
START_TEST(another_says_it_is_the_peer)
{
    const char *elsewhere = "10.9.0.3";
    struct ib_message req = ib_request(elsewhere, TWONETS_NEAR, PORT, NUMBER);
    struct soft_path path = peer.path;
    int ready, fd = peer.fd, on = 1;
    pid_t other = start_server("0.0.0.0", PORT + 1), once = start_server_once(&ready, false);

    await_byte(ready);
    peer.path.local = ib_at(elsewhere, SOFT_UDP_PORT);
    twonets_enter(true);
    peer.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    twonets_enter(false);
    ck_assert_int_eq(setsockopt(peer.fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on), 0);
    ck_assert_int_eq(bind(peer.fd, &peer.path.local.sa, sizeof peer.path.local.in), 0);
    peer_says(&req);
    await_byte(ready);
    close(peer.fd);
    peer.fd = fd;
    peer.path = path;
    req = peer_request(PORT + 1);
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REP).remote_id, NUMBER);
    close(ready);
    process_kill(once);
    process_kill(other);
}
END_TEST

/* The messages for a program that is stopped wait; those for other programs do not. */
START_TEST(a_program_is_stopped)
{
    pid_t stopped = start_server("0.0.0.0", PORT), other = start_server("0.0.0.0", PORT + 1);
    struct ib_message req = peer_request(PORT);

    process_stop(stopped);
    peer_says(&req);
    for (uint32_t number = 100; number < 200; number++) { /* more than the queue of a socket may hold */
        req.local_id = NUMBER + number;
        req.req.qpn = IBWORDS_QPN + number;
        peer_says(&req);
    }
    for (uint32_t number = 1; number < 9; number++)
        peer_visits(PORT + 1, number);
    ck_assert_int_eq(kill(stopped, SIGCONT), 0);
    ck_assert_uint_ge(peer_hears(IB_REP).remote_id,
                      NUMBER + 100); /* its backlog is short; the last requests get in */
    process_kill(stopped);
    process_kill(other);
}
END_TEST

/* Starts a program that connects. */
static pid_t start_client(void)
{
    struct rdma_conn_param param = {.retry_count = 7};
    pid_t pid = fork();

    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    channel = soft_create_event_channel();
    (void)soft_connect(resolve_bound(), &param);
    (void)status_of(RDMA_CM_EVENT_ESTABLISHED);
    _exit(0);
}

/* A program that connects is killed before the REP arrives, which is then lost. The peer asks for the connection's end,
 * and is answered that there is none. */
START_TEST(a_client_dies_in_a_handshake)
{
    pid_t other = start_server("0.0.0.0", PORT + 1), dying = start_client();
    struct ib_message req = peer_hears(IB_REQ), rep = peer_reply(), message;

    process_kill(dying);
    peer.number = rep.remote_id = req.local_id;
    rep.transaction = req.transaction;
    peer_says(&rep);
    peer_visits(PORT + 1, 1); /* and other messages are processed in the meantime */
    message = peer_answer(IB_DREQ);
    message.dreq.qpn = req.req.qpn;
    peer_says(&message);
    ck_assert_uint_eq(peer_hears(IB_DREP).remote_id, NUMBER);
    process_kill(other);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("programs that share connection management");
    TCase *tcase = ib_case(suite, "programs that share connection management");

    tcase_add_test(tcase, several_programs);
    tcase_add_test(tcase, a_program_dies_in_a_handshake);
    tcase_add_test(tcase, a_client_dies_in_a_handshake);
    tcase_add_loop_test(tcase, a_listener_has_gone, 0, 2);
    tcase_add_loop_test(tcase, a_listener_has_gone_since, 0, 2);
    tcase_add_loop_test(tcase, a_listener_for_datagrams_has_gone, 0, 4);
    tcase_add_test(tcase, another_says_it_is_the_peer);
    tcase_add_test(tcase, a_program_is_stopped);
    return suite;
}

int main(void)
{
    return ib_main(suite);
}
