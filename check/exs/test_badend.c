/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_badend.c - peers that do not respond, do not receive, or disappear in the middle of a transfer: the application
 * gets the errors that exs(7), "The special problem of a peer's death", promises. The software device and rdma-core
 * behave alike.
 */
#include "check/support/scene.h"

#include <poll.h>

/* ---- Peers that post no receives -------------------------------------------------------- */

/* The peer posts no receives, whatever credits its hello promises. EXS's device retries this number of times. */
static void deaf_scene(uint8_t tries)
{
    scene_stage(SOCK_STREAM);
    scene.raw.receives = 0;
    scene.raw.rnr_retries = tries;
    scene_enter(raw_hello(SOCK_STREAM));
}

START_TEST(a_send_to_a_deaf_peer)
{
    deaf_scene(1);
    must(exs_recv(scene.server, scene.in, 1, 0, scene.box.queue, NULL, NULL));
    must(exs_send(scene.server, scene.out, 1, 0, scene.box.queue, NULL, NULL));
    take_failed(&scene.box, EXS_EVT_SEND, scene.server, ETIMEDOUT);
    take_failed(&scene.box, EXS_EVT_RECV, scene.server, ETIMEDOUT);
    must_fail(exs_send(scene.server, scene.out, 1, 0, scene.box.queue, NULL, NULL), ETIMEDOUT);
    must_fail(exs_recv(scene.server, scene.in, 1, 0, scene.box.queue, NULL, NULL), ETIMEDOUT);
    raw_ended(&scene.raw);
    scene_close();
}
END_TEST

static void close_server(void)
{
    must(exs_close(scene.server, 0, scene.box.queue, NULL));
}

static void closed(void)
{
    take_good(&scene.box, EXS_EVT_CLOSE, scene.server);
    scene.server = -1;
    raw_ended(&scene.raw);
    scene_close();
}

/* A close waits 5 seconds for the peer to receive the end of the stream, no longer. */
START_TEST(a_close_towards_a_deaf_peer)
{
    deaf_scene(7);
    must(exs_recv(scene.server, scene.in, 1, 0, scene.box.queue, NULL, NULL));
    close_server();
    take_failed(&scene.box, EXS_EVT_RECV, scene.server, ECANCELED);
    closed();
}
END_TEST

/* A close does not wait if sends are in progress, nor for a peer that never advertises. */
START_TEST(a_close_with_sends_that_wait)
{
    _i ? deaf_scene(7) : scene_open_type(SOCK_SEQPACKET);
    must(exs_send(scene.server, scene.out, 1, 0, scene.box.queue, NULL, NULL));
    must(exs_send(scene.server, scene.out, SENT, 0, scene.box.queue, NULL, NULL));
    inbox_quiet(&scene.box, QUIET_MS);
    close_server();
    take_failed(&scene.box, EXS_EVT_SEND, scene.server, ECANCELED);
    take_failed(&scene.box, EXS_EVT_SEND, scene.server, ECANCELED);
    closed();
}
END_TEST

/* The peer requests a connection and then ignores the reply: the accept is used for the next client. */
START_TEST(an_answer_that_is_not_taken)
{
    exs_acceptaddr_t wanted = {.exs_addr = NULL};
    int client;

    scene_stage(SOCK_STREAM);
    must(exs_accept(scene.listener, &wanted, 1, 0, scene.box.queue));
    raw_request(&scene.raw, &scene.address, raw_hello(SOCK_STREAM), HELLO_SIZE);
    raw_look(&scene.raw); /* with the software device, this sends the request */
    must(client = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_connect(client, SA(&scene.address), scene.address.length, 0, NULL, scene.box.queue, NULL));
    take_good(&scene.box, EXS_EVT_CONNECT, client);
    take_good(&scene.box, EXS_EVT_ACCEPT, scene.listener);
    pass_bytes(&scene.box, client, &scene.box, wanted.exs_socket, BYTES, 3);
    close_socket(&scene.box, client);
    close_socket(&scene.box, wanted.exs_socket);
    scene_close();
}
END_TEST

/* ---- Peers that disconnect -------------------------------------------------------------- */

/* The peer sends the end of the stream and disconnects while a send to it is in progress. */
START_TEST(it_takes_leave)
{
    scene_open_type(SOCK_STREAM);
    scene_do(SENDING);
    scene_do(RECEIVING);
    raw_control(&scene.raw, (struct control){.type = CONTROL_FIN});
    exs_event_t event = take_good(&scene.box, EXS_EVT_RECV, scene.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    raw_disconnect(&scene.raw);
    scene_undone(SENDING);
    must_fail(exs_send(scene.server, scene.out, 1, 0, scene.box.queue, NULL, NULL), EPIPE);
    must(exs_recv(scene.server, scene.in, 1, 0, scene.box.queue, NULL, NULL));
    event = take_good(&scene.box, EXS_EVT_RECV, scene.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    scene_close();
}
END_TEST

/* The peer disconnects without an end of the stream: no operation in progress may report EXS_EOF. */
START_TEST(it_just_goes)
{
    scene_open_type(_i ? SOCK_STREAM : SOCK_SEQPACKET);
    scene_do(SENDING);
    must(exs_recv(scene.server, scene.in, BYTES, 0, scene.box.queue, NULL, NULL));
    raw_disconnect(&scene.raw);
    scene_undone(SENDING);
    scene_undone(RECEIVING);
    must_fail(exs_send(scene.server, scene.out, 1, 0, scene.box.queue, NULL, NULL), ECONNRESET);
    must_fail(exs_recv(scene.server, scene.in, 1, 0, scene.box.queue, NULL, NULL), ECONNRESET);
    scene_close();
}
END_TEST

/* ---- Peers whose process dies ----------------------------------------------------------- */

/* Another process writes half of the advertised receive, and then exits or is killed. */
static void half_a_transfer(int fd, void *arg)
{
    struct address to;
    struct raw raw;
    char told;

    hear(fd, &to, sizeof to);
    raw_open(&raw, NULL);
    raw_connect(&raw, &to, raw_hello(*(int *)arg));
    struct control advert = raw_hear_control(&raw, CONTROL_ADVERT);

    raw_direct(&raw, &advert, BYTES / 2, IMM_MORE);
    ck_assert_int_eq(raw_status(&raw), IBV_WC_SUCCESS);
    tell(fd, "x", 1);
    hear(fd, &told, 1);
    exit(0);
}

START_TEST(it_dies_in_the_middle)
{
    int socktype = _i / 2 ? SOCK_STREAM : SOCK_SEQPACKET;
    exs_acceptaddr_t wanted = {.exs_addr = NULL};
    struct address address;
    struct child child;
    struct inbox box;
    char in[BYTES], told;

    child_start(&child, half_a_transfer, &socktype);
    init_library();
    inbox_open(&box, 4);
    int listener = open_listener(AF_INET, socktype, 4, &address);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    tell(child.fd, &address, sizeof address);
    take_good(&box, EXS_EVT_ACCEPT, listener);
    must(exs_recv(wanted.exs_socket, in, BYTES, 0, box.queue, NULL, NULL));
    while (poll(&(struct pollfd){.fd = child.fd, .events = POLLIN}, 1, 0) == 0)
        inbox_pump(&box, 10);
    hear(child.fd, &told, 1);
    if (_i % 2) {
        child_kill(&child);
    } else {
        tell(child.fd, "x", 1);
        child_join(&child);
    }
    take_failed(&box, EXS_EVT_RECV, wanted.exs_socket, ECONNRESET);
    must_fail(exs_send(wanted.exs_socket, in, 1, 0, box.queue, NULL, NULL), ECONNRESET);
    close_socket(&box, wanted.exs_socket);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

enum { WANTED = 1 << 20, CAME = 600 << 10 }; /* bytes */

/* Another process, which uses EXS, sends less than the receiver waits for, and reports when the receiver has
 * acknowledged it all. */
static void less_than_wanted(int fd, void *arg)
{
    char *out = new_buffer(CAME), told;
    struct address to;

    (void)arg;
    hear(fd, &to, sizeof to);
    init_library();
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    must(client);
    must(exs_blocking_connect(client, SA(&to), to.length));
    pattern_fill(out, CAME, 4, 0);
    ck_assert_int_eq(exs_blocking_send(client, out, CAME, 0, NULL), CAME);
    tell(fd, "x", 1);
    hear(fd, &told, 1);
}

static void *kill_when_told(void *arg)
{
    struct child *child = arg;
    char told;

    hear(child->fd, &told, 1);
    child_kill(child);
    return NULL;
}

/* A blocking call with MSG_WAITALL returns the bytes that had arrived; the next call fails with ECONNRESET. */
START_TEST(it_dies_and_a_call_waits)
{
    char *in = new_buffer(WANTED);
    struct address address;
    struct child child;

    child_start(&child, less_than_wanted, NULL);
    init_library();
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    tell(child.fd, &address, sizeof address);
    int server = exs_blocking_accept(listener, NULL, NULL);
    must(server);
    pthread_t killer = thread_start(kill_when_told, &child);
    ck_assert_int_eq(exs_blocking_recv(server, in, WANTED, MSG_WAITALL, NULL), CAME);
    thread_join(killer);
    pattern_check(in, CAME, 4, 0);
    same_bytes(in + CAME, WANTED - CAME, CANARY);
    must_fail(exs_read(server, in, 1), ECONNRESET);
    must(exs_blocking_close(server));
    must(exs_blocking_close(listener));
    free(in);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("badend");
    TCase *deaf = add_bare_case(suite, "deaf", 30), *gone = add_bare_case(suite, "gone", 20);

    tcase_add_test(deaf, a_send_to_a_deaf_peer);
    tcase_add_test(deaf, a_close_towards_a_deaf_peer);
    tcase_add_loop_test(deaf, a_close_with_sends_that_wait, 0, 2);
    tcase_add_test(deaf, an_answer_that_is_not_taken);
    tcase_add_test(gone, it_takes_leave);
    tcase_add_loop_test(gone, it_just_goes, 0, 2);
    tcase_add_loop_test(gone, it_dies_in_the_middle, 0, 4);
    tcase_add_test(gone, it_dies_and_a_call_waits);
    return run_suite(suite);
}
