/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_slots.c - ports of RDMA_PS_UDP and their resolution by TCP: any user of the host can listen at the TCP ports
 * ("slots") at which clients ask for a port's owner, before the owner or after it, and must not get the owner's
 * datagrams.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <sys/socket.h>
#include <rdma/rdma_cma.h>
#include "check/support/cmpeer.h"
#include "check/support/runner.h"
#include "soft/cm/cm_number.h"
#include "soft/verbs/verbs.h"

enum { NUMBER = 7321, ASKED_AT = 12, RESOLVE_MS = 5000, WAIT_MS = 30000, STRANGERS_QPN = 0x1234 };

/* How the untrusted process answers a SIDR_REQ. */
enum stranger { CLAIMS, OTHER_NUMBER, NOT_OURS };

static struct sockaddr_in own(void)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(NUMBER), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* ---- An untrusted process, played by a thread ---- */

static int slot_fd = -1;
static enum stranger stranger;
static pthread_t thread;
static atomic_uint asked;

static void *serve(void *arg)
{
    const struct said claim = said(SAID_SIDR_REP);
    struct said question, other = said(SAID_REJ);
    int fd;

    said_put(&other, 8, 2, 8); /* REJ: no such service */
    while ((fd = accept(slot_fd, NULL, NULL)) != -1) {
        ssize_t got = recv(fd, question.bytes, 196, MSG_WAITALL);
        const struct said *reply = stranger == CLAIMS ? &claim : &other;

        if (got == 196 && question.bytes[ASKED_AT] << 8 == (NUMBER & 0xff00))
            asked++;
        if (stranger == NOT_OURS)
            (void)!send(fd, "220 hello\r\n", 11, MSG_NOSIGNAL);
        else
            (void)!send(fd, reply->bytes, reply->size, MSG_NOSIGNAL);
        close(fd);
    }
    return arg;
}

static void take_slot(unsigned slot, enum stranger kind)
{
    struct sockaddr_in at = own();

    at.sin_port = cm_number_slot(htons(NUMBER), slot);
    slot_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(setsockopt(slot_fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    ck_assert_int_eq(bind(slot_fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(slot_fd, 8), 0);
    stranger = kind;
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
}

static void leave_slot(void)
{
    shutdown(slot_fd, SHUT_RDWR);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    close(slot_fd);
}

/* ---- The port's owner, and its client ---- */

static struct rdma_event_channel *channel;

static struct rdma_cm_event *next(enum rdma_cm_event_type type)
{
    struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    ck_assert_int_eq(poll(&wait, 1, WAIT_MS), 1);
    ck_assert_int_eq(soft_get_cm_event(channel, &event), 0);
    ck_assert_msg(event->event == type, "%s, not %s", rdma_event_str(event->event), rdma_event_str(type));
    return event;
}

static void pass(enum rdma_cm_event_type type)
{
    ck_assert_int_eq(soft_ack_cm_event(next(type)), 0);
}

static struct rdma_cm_id *new_id(void)
{
    struct rdma_cm_id *id;

    ck_assert_int_eq(soft_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
    return id;
}

static struct rdma_cm_id *listen_for_number(void)
{
    struct rdma_cm_id *id = new_id();
    struct sockaddr_in at = own();

    ck_assert_int_eq(soft_bind_addr(id, (struct sockaddr *)&at), 0);
    ck_assert_int_eq(soft_listen(id, 8), 0);
    return id;
}

static struct rdma_cm_id *ask(void)
{
    struct rdma_cm_id *id = new_id();
    struct sockaddr_in to = own();
    struct rdma_conn_param param = {.qp_num = 0};

    ck_assert_int_eq(soft_resolve_addr(id, NULL, (struct sockaddr *)&to, RESOLVE_MS), 0);
    pass(RDMA_CM_EVENT_ADDR_RESOLVED);
    ck_assert_int_eq(soft_resolve_route(id, RESOLVE_MS), 0);
    pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
    ck_assert_int_eq(soft_connect(id, &param), 0);
    return id;
}

/* The owner answers with a queue pair number that the other process does not know. */
static void answer(void)
{
    struct rdma_cm_event *event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = event->id;
    struct rdma_conn_param param = {.qp_num = 0x4321};

    ck_assert_int_eq(soft_ack_cm_event(event), 0);
    ck_assert_int_eq(soft_accept(id, &param), 0);
    ck_assert_int_eq(soft_destroy_id(id), 0);
}

static void expect_owner(void)
{
    struct rdma_cm_event *event = next(RDMA_CM_EVENT_ESTABLISHED);

    ck_assert_uint_eq(event->param.ud.qp_num, 0x4321);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
}

static void expect_refusal(int status)
{
    struct rdma_cm_event *event = next(RDMA_CM_EVENT_UNREACHABLE);

    ck_assert_int_eq(event->status, status);
    ck_assert_int_eq(soft_ack_cm_event(event), 0);
}

static void begin(void)
{
    soft_share_context(); /* as exs-soft-run does */
    channel = soft_create_event_channel();
    ck_assert_ptr_nonnull(channel);
    asked = 0;
}

static void end(void)
{
    soft_destroy_event_channel(channel);
}

/* ---- Tests ---- */

START_TEST(the_owner_alone)
{
    struct rdma_cm_id *listener = listen_for_number(), *client = ask();

    answer();
    expect_owner();
    soft_destroy_id(client);
    soft_destroy_id(listener);
}
END_TEST

/* `_i` 0: the other process was first, and has the first slot; 1: it came later, and has the last one. */
START_TEST(two_that_claim_it)
{
    struct rdma_cm_id *listener, *client;

    if (_i == 0)
        take_slot(0, CLAIMS);
    listener = listen_for_number();
    if (_i == 1)
        take_slot(NUMBER_SLOTS - 1, CLAIMS);
    client = ask();
    answer();
    expect_refusal(-EADDRINUSE);
    ck_assert_uint_eq(asked, 1);
    soft_destroy_id(client);
    soft_destroy_id(listener);
    leave_slot();
}
END_TEST

/* A process that answers for another port, or is another program, has no effect. */
START_TEST(one_that_claims_another)
{
    struct rdma_cm_id *listener, *client;

    take_slot(_i / 2 == 0 ? 0 : 3, _i % 2 == 0 ? OTHER_NUMBER : NOT_OURS);
    listener = listen_for_number();
    client = ask();
    answer();
    expect_owner();
    ck_assert_uint_eq(asked, 1);
    soft_destroy_id(client);
    soft_destroy_id(listener);
    leave_slot();
}
END_TEST

START_TEST(nobody_there)
{
    struct rdma_cm_id *client = ask();

    expect_refusal(1); /* SIDR status "service ID not supported" */
    soft_destroy_id(client);
}
END_TEST

START_TEST(whose_a_slot_is)
{
    uid_t owner = (uid_t)-1;

    ck_assert(!cm_number_find_owner(cm_number_slot(htons(NUMBER), 5), &owner));
    take_slot(5, CLAIMS);
    ck_assert(cm_number_find_owner(cm_number_slot(htons(NUMBER), 5), &owner));
    ck_assert_uint_eq(owner, geteuid());
    leave_slot();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slots");
    TCase *tcase = new_case(suite, "slots");

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, the_owner_alone);
    tcase_add_loop_test(tcase, two_that_claim_it, 0, 2);
    tcase_add_loop_test(tcase, one_that_claims_another, 0, 4);
    tcase_add_test(tcase, nobody_there);
    tcase_add_test(tcase, whose_a_slot_is);
    return run_suite(suite);
}
