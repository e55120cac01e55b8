/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_programs.c - several programs have RoCE's port: whichever of them reads a packet, the one that it is
 * for has it, whoever of them ends or stands still.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include "check/support/ibpeer.h"
#include "check/support/processes.h"
#include "soft/cm/cm_id.h"

/* Whichever of them reads a packet, the one that it is for has it. */
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

/* Ours has heard the request, or given its answer, and is killed before the peer says that it is ready. Another
 * that has the port answers for it from then on, and whoever listens next has what is asked anew. */
START_TEST(a_program_dies_in_a_handshake)
{
    pid_t other = start_server("0.0.0.0", PORT + 1), dying = start_server("0.0.0.0", PORT);
    struct ib_message req = peer_request(PORT), rep, message;

    peer_says(&req);
    rep = peer_hears(IB_REP);
    process_kill(dying);
    peer.number = rep.local_id;
    message = peer_answer(IB_RTU);
    peer_says(&message); /* to nobody */
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

/* It accepts the first that comes, and listens no more, at once or when that is connected; and says so when
 * that is so. */
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

/* The peer has the answer, and says so. */
static void peer_takes(const struct ib_message *rep)
{
    struct ib_message rtu;

    peer.number = rep->local_id;
    rtu = peer_answer(IB_RTU);
    peer_says(&rtu);
}

/* The peer ends its connection, which was that program's last. */
static void ends_in_order(pid_t once, int ready, const struct ib_message *rep)
{
    struct ib_message dreq = peer_answer(IB_DREQ), message;

    dreq.dreq.qpn = rep->rep.qpn;
    peer_says(&dreq);
    do
        message = peer_hears_any(); /* perhaps the REP, which came again by itself since the RTU came late */
    while (message.type == IB_REP);
    ck_assert_uint_eq(message.type, IB_DREP);
    process_join(once);
    close(ready);
}

/* The same request comes again when its listener has gone, or another has come: whichever reads it, the one
 * that has the connection answers, as before. */
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
    req.local_id += 2; /* another's is refused */
    peer_says(&req);
    ck_assert_uint_eq(peer_hears(IB_REJ).rej.reason, IB_INVALID_SERVICE);
    process_kill(other);
}
END_TEST

/* The same, late, when the connection is there: what said now that nobody listens would end it, and another
 * listener would take it for one more. */
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

/* It is asked once who serves, and listens no more, before its answer or behind it, and says so. The answer
 * that is still to come waits for a byte, and so does its own end. */
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

/* The same for who serves a port: whoever was asked, and has answered or not, is the one that answers when the
 * same question comes again, and nobody else says that there is no such service, or serves it. */
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
    ck_assert_uint_eq(reply.private_data[0], 0); /* and not that of another */
    for (int i = 0; i < 40; i++) {
        peer_says(&asks);
        again = peer_hears(IB_SIDR_REP);
        ck_assert_mem_eq(&again, &reply, sizeof reply);
    }
    asks.local_id += 2; /* another's */
    peer_says(&asks);
    do
        again = peer_hears(IB_SIDR_REP); /* perhaps to what was asked before the first, and read only then */
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

/* Another host names the peer's node, and a number that the peer has later: neither keeps the peer's request
 * from the listener that it is for. It needs no answer of ours, nor to be there. */
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

/* One that stands still has its packets wait, and nobody else's. */
START_TEST(a_program_is_stopped)
{
    pid_t stopped = start_server("0.0.0.0", PORT), other = start_server("0.0.0.0", PORT + 1);
    struct ib_message req = peer_request(PORT);

    process_stop(stopped);
    peer_says(&req);
    for (uint32_t number = 100; number < 200; number++) { /* more than a socket's queue may hold */
        req.local_id = NUMBER + number;
        req.req.qpn = IBWORDS_QPN + number;
        peer_says(&req);
    }
    for (uint32_t number = 1; number < 9; number++)
        peer_visits(PORT + 1, number);
    ck_assert_int_eq(kill(stopped, SIGCONT), 0);
    ck_assert_uint_ge(peer_hears(IB_REP).remote_id,
                      NUMBER + 100); /* it has room for few, and the last get it */
    process_kill(stopped);
    process_kill(other);
}
END_TEST

/* One that connects. */
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

/* One that connects is killed before the answer comes, which nobody takes then: who gave it asks for its end,
 * and is told that there is none. */
START_TEST(a_client_dies_in_a_handshake)
{
    pid_t other = start_server("0.0.0.0", PORT + 1), dying = start_client();
    struct ib_message req = peer_hears(IB_REQ), rep = peer_reply(), message;

    process_kill(dying);
    peer.number = rep.remote_id = req.local_id;
    rep.transaction = req.transaction;
    peer_says(&rep);
    peer_visits(PORT + 1, 1); /* and is heard meanwhile */
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
