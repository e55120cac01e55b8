/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_turns.c - connections seen from inside the library, while the application makes few calls: an
 * unresponsive peer is probed and finally given up; each queue with work is processed, also if its device does
 * not signal; and completions that arrived before an error count.
 */
#include <poll.h>
#include "core/queue/nic.h"
#include "core/queue/queue.h"
#include "core/sock/sock.h"
#include "inside.h"
#include "own_clock.h"
#include "core/queue/wait.h"

#define FEW_BYTES 100
#define ROUNDS 2000
#define FEW_OPS 64
#define SLOW_NS 10000000 /* ns, of one pass */

static void think_of_peer(int socket)
{
    struct conn *conn = conn_of(socket);

    xs_sock_lock(conn->sock);
    xs_probe(conn);
    xs_sock_unlock(conn->sock);
}

/* A device that never reports exhausted retries does not keep a connection alive for ever. */
START_TEST(silence_has_an_end)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct conn *conn = conn_of(pair.client);

    inbox_quiet(pair.client_box, QUIET_MS);
    think_of_peer(pair.client);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(conn->state.error, 0);
        think_of_peer(pair.client); /* the first of these probes the peer; its completion is not polled */
    }
    think_of_peer(pair.client);
    ck_assert_int_eq(conn->state.error, ETIMEDOUT);
    pair_close(&pair);
}
END_TEST

static bool is_readable(exs_qhandle_t queue, int within_ms)
{
    return poll(&(struct pollfd){.fd = exs_qfd(queue), .events = POLLIN}, 1, within_ms) == 1;
}

/* Only an idle peer is probed, and only once until it answers; the probe does not wake it. */
START_TEST(an_idle_peer_is_probed)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct conn *conn = conn_of(pair.client);

    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, FEW_BYTES, 1);
    inbox_quiet(pair.client_box, QUIET_MS);
    inbox_quiet(pair.server_box, QUIET_MS);
    uint32_t before = conn->sq.tail;

    think_of_peer(pair.client);
    ck_assert_uint_eq(conn->sq.tail, before);
    think_of_peer(pair.client);
    think_of_peer(pair.client);
    ck_assert_uint_eq(conn->sq.tail, before + 1);
    ck_assert(is_readable(pair.client_box->queue, WAIT_MS)); /* the probe's completion */
    ck_assert(!is_readable(pair.server_box->queue, QUIET_MS));
    inbox_quiet(pair.client_box, QUIET_MS);
    ck_assert_uint_eq(conn->sq.head, conn->sq.tail);
    think_of_peer(pair.client);
    ck_assert_uint_eq(conn->sq.tail, before + 1);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, FEW_BYTES, 2);
    pair_close(&pair);
}
END_TEST

/* A queue whose host always has other events is processed nevertheless: after some hundreds of passes, or after
 * far fewer if each takes long. */
START_TEST(connections_get_their_turn)
{
    struct pair pair;
    exs_acceptaddr_t wanted = {.exs_ahandle = NULL};
    int client, runs = 0;
    bool slow = _i == 1;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct sock *listener = xs_sock_get(pair.listener);
    struct queue *home = atomic_load(&listener->home);

    pair.client_box->beside = NULL; /* the listener's side progresses only in this loop, by its event channel */
    must(client = exs_socket(AF_INET, SOCK_STREAM, 0));
    must(exs_accept(pair.listener, &wanted, 1, 0, pair.server_box->queue));
    must(exs_connect(client, SA(&pair.address), pair.address.length, 0, NULL, pair.client_box->queue, NULL));
    while (listener->state == SOCK_LISTENING && !STAILQ_EMPTY(&listener->accepts)) {
        inbox_pump(pair.client_box, 1);
        if (!is_readable(pair.server_box->queue, 0))
            continue;
        ck_assert_int_lt(runs++, slow ? 100 : 1000);
        struct turn glance = {.watched = BY_POLLING};

        own_clock = true;
        own_leap += slow ? SLOW_NS : 0;
        xs_sock_lock(listener);
        xs_turn_home(home, &glance); /* there is no event for these connections */
        ck_assert_int_eq(glance.others, 0);
        xs_turn_home(home, &(struct turn){.watched = BY_LEVEL, .harvested = 1});
        xs_sock_unlock(listener);
        own_clock = false;
    }
    ck_assert_int_gt(runs, slow ? 20 : 200);
    xs_sock_put(listener);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_ACCEPT, pair.listener);

    take_good(pair.client_box, EXS_EVT_CONNECT, client);
    close_socket(pair.client_box, client);
    close_socket(pair.server_box, event.exs_evt_union.exs_evt_accept.exs_evt_newsocket);
    pair_close(&pair);
}
END_TEST

static const struct device *willing;
static int refusals; /* number of times that the completion queue cannot be armed */

static int harvest_unwillingly(struct ibv_comp_channel *channel, struct harvest *harvest)
{
    if (refusals == 0)
        return willing->harvest(channel, harvest);
    refusals--;
    *harvest = (struct harvest){.unfinished = harvest->unfinished, .stuck = true};
    return 0;
}

/* If arming the completion queue fails, the device will not signal later completions. The loop must therefore
 * come back, also if busy polling is disabled. */
START_TEST(a_device_that_refuses_to_say)
{
    struct pair pair;
    exs_event_t event;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_quiet(pair.client_box, QUIET_MS);
    exs_qhandle_t queue = pair.client_box->queue;

    must(exs_qmodify(queue, EXS_QATTR_WAIT, &(exs_qattr_t){.exs_wait = EXS_WAIT_NOTIFY}));
    struct nic *nic = conn_of(pair.client)->nic;
    struct device unwilling = *nic->device;

    unwilling.harvest = harvest_unwillingly;
    willing = nic->device;
    nic->device = &unwilling;
    refusals = 1;
    ck_assert_int_eq(exs_qpoll(queue, &event, 1, EXS_LOOP_BUDGET), 0);
    ck_assert_int_eq(refusals, 0);
    ck_assert_msg(is_readable(queue, 0), "nothing would wake the loop");
    do /* but not for ever */
        ck_assert_int_eq(exs_qpoll(queue, &event, 1, EXS_LOOP_BUDGET), 0);
    while (is_readable(queue, 0));
    nic->device = willing;
    pair_close(&pair);
}
END_TEST

/* Sends a byte to the client, whose queue has this mode and has not processed it yet. */
static void bring(const struct pair *pair, char *byte, const exs_qattr_t *mode)
{
    exs_event_t none;
    exs_qhandle_t queue = pair->client_box->queue;

    must(exs_qmodify(queue, EXS_QATTR_WAIT, mode));
    inbox_quiet(pair->client_box, QUIET_MS);
    must(exs_recv(pair->client, byte, 1, 0, queue, NULL, NULL));
    must(exs_send(pair->server, "!", 1, EXS_UNSIGNALED, pair->server_box->queue, NULL, NULL));
    ck_assert_int_eq(exs_qdequeue(pair->server_box->queue, &none, 1, &(struct timeval){0}), 0);
}

/* However long the application handles an event, the polling time starts when it returns: the loop comes back,
 * and sleeps only when nothing has arrived for that time. */
START_TEST(a_long_callback)
{
    struct pair pair;
    exs_event_t event;
    char byte;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_qhandle_t queue = pair.client_box->queue;

    bring(&pair, &byte, &(exs_qattr_t){.exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = 100});
    own_clock = true;
    while (exs_qpoll(queue, &event, 1, EXS_LOOP_BUDGET) == 0)
        ck_assert(is_readable(queue, WAIT_MS));
    own_leap += SLOW_NS;
    ck_assert_int_eq(exs_qpoll(queue, &event, 1, EXS_LOOP_BUDGET), 0);
    ck_assert_msg(is_readable(queue, 0), "the loop would sleep at once");
    for (int turns = 0; is_readable(queue, 0); turns++) {
        ck_assert_int_lt(turns, 10);
        ck_assert_int_eq(exs_qpoll(queue, &event, 1, EXS_LOOP_BUDGET), 0);
    }
    own_clock = false;
    pair_close(&pair);
}
END_TEST

/* The device delays an acknowledgement, to send it along with an answer. exs_qprepare() says that the thread is
 * going to sleep, so the device sends it. */
START_TEST(prepare_sends_what_is_held_back)
{
    struct pair pair;
    exs_event_t event;
    char byte;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_qhandle_t queue = pair.client_box->queue;
    const struct nic *nic = conn_of(pair.client)->nic;

    service_suspend(service_of(pair.client)); /* the service thread would send it later */
    bring(&pair, &byte, &(exs_qattr_t){.exs_wait = EXS_WAIT_NOTIFY});
    while (exs_qpoll(queue, &event, 1, EXS_LOOP_BUDGET) == 0)
        ck_assert(is_readable(queue, WAIT_MS));
    ck_assert(xs_nic_waits(nic));
    must(exs_qprepare(queue));
    ck_assert(!xs_nic_waits(nic));
    pair_close(&pair);
}
END_TEST

/* The connection breaks while the completion of a send is in the completion queue: the send succeeds. */
START_TEST(what_has_arrived_was_sent)
{
    struct pair pair;
    struct ibv_wc wc = {.wr_id = RECEIVE_BIT};

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct sock *sock = xs_sock_get(pair.client);

    must(exs_send(pair.client, "received", 8, 0, pair.client_box->queue, NULL, NULL));
    xs_sock_lock(sock);
    while (wc.wr_id & RECEIVE_BIT) { /* polling makes the device progress */
        if (ibv_poll_cq(sock->conn->cq->cq, 1, &wc) == 1)
            ck_assert_ptr_eq(xs_conn_of(wc.wr_id), sock->conn);
    }
    xs_conn_fail(sock->conn, ECONNRESET);
    xs_conn_completion(sock->conn, &wc);
    xs_sock_unlock(sock);
    xs_sock_put(sock);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    pair_close(&pair);
}
END_TEST

/* A queue allocates as many operations as are pending at once, and a few more, however many come and go on its
 * own connections and on a listener that it drives. */
START_TEST(operations_come_back)
{
    struct pair pair;
    exs_acceptaddr_t wanted = {.exs_ahandle = NULL};

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct queue *queue = xs_queue_get(pair.server_box->queue);
    int before = queue->pool.ops;

    for (int i = 0; i < ROUNDS; i++) {
        char byte;

        must(exs_recv(pair.server, &byte, 1, 0, pair.server_box->queue, NULL, NULL));
        must(exs_accept(pair.listener, &wanted, 1, 0, pair.server_box->queue));
        must(exs_send(pair.client, "x", 1, 0, pair.client_box->queue, NULL, NULL));
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        must(exs_cancel(pair.listener, NULL, EXS_CANCEL_ALL));
        take_failed(pair.server_box, EXS_EVT_ACCEPT, pair.listener, ECANCELED);
    }
    ck_assert_msg(queue->pool.ops <= before + FEW_OPS, "%d operations, where there were %d", queue->pool.ops,
                  before);
    xs_queue_put(queue);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("turns");
    TCase *talk = add_case(suite, "turns", 60);

    tcase_add_test(talk, silence_has_an_end);
    tcase_add_test(talk, an_idle_peer_is_probed);
    tcase_add_loop_test(talk, connections_get_their_turn, 0, 2);
    tcase_add_test(talk, a_device_that_refuses_to_say);
    tcase_add_test(talk, a_long_callback);
    tcase_add_test(talk, prepare_sends_what_is_held_back);
    tcase_add_test(talk, what_has_arrived_was_sent);
    tcase_add_test(talk, operations_come_back);
    return run_suite(suite);
}
