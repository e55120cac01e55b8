/* SPDX-License-Identifier: BSD-2-Clause */
/* test_acceptor.c - tools/common/acceptor.h: the number of pending accepts, and the handling of failures, for example a
 * lack of memory. */
#include <check.h>
#include <errno.h>
#include <ev.h>
#include <stdio.h>
#include <string.h>

#include "check/support/runner.h"
#include "tools/common/acceptor.h"

enum { LISTENER = 3, SOCKET = 7 };

/* Arguments of exs_accept() and output of the acceptor. Each test runs in a process of its own. */
static exs_acceptaddr_t *posted[2 * ACCEPTOR_PLACES];
static int count, space, connections, lines, refused; /* refused: errno with which exs_accept() fails */
static char last[200];

int exs_accept(int sockno, exs_acceptaddr_t *addrvec, int addrvec_cnt, int flags, exs_qhandle_t qhandle)
{
    (void)qhandle;
    ck_assert_int_eq(sockno, LISTENER);
    ck_assert_int_eq(addrvec_cnt, 1);
    ck_assert_int_eq(flags, 0);
    if (refused != 0) {
        errno = refused;
        return -1;
    }
    ck_assert_int_lt(count, 2 * ACCEPTOR_PLACES);
    posted[count++] = addrvec;
    return 0;
}

static int room(void)
{
    return space - connections;
}

static void came(int socket, const struct sockaddr_storage *address)
{
    ck_assert_int_eq(socket, SOCKET);
    ck_assert_int_eq(address->ss_family, AF_INET);
    connections++;
}

static void say(const char *why)
{
    lines++;
    snprintf(last, sizeof(last), "%s", why);
}

static struct acceptor acceptor;

static int begin(int may_come)
{
    space = may_come;
    acceptor = (struct acceptor){
        .loop = ev_default_loop(0), .listener = LISTENER, .room = room, .came = came, .say = say};
    return acceptor_begin(&acceptor);
}

/* Completes the first pending accept with this error. */
static void end_one(int error)
{
    exs_event_t event = {
        .exs_evt_type = EXS_EVT_ACCEPT, .exs_evt_errno = error, .exs_evt_ahandle = posted[0]->exs_ahandle};

    event.exs_evt_union.exs_evt_accept.exs_evt_newsocket = error == 0 ? SOCKET : -1;
    ((struct sockaddr_storage *)posted[0]->exs_addr)->ss_family = AF_INET;
    memmove(posted, posted + 1, (size_t)--count * sizeof(*posted));
    acceptor_event(&acceptor, &event);
}

/* Runs one iteration of the loop, which waits a second at most, or not at all if no watcher is active. */
static void turn(void)
{
    ev_run(acceptor.loop, EVRUN_ONCE);
}

START_TEST(as_many_as_there_is_room_for)
{
    ck_assert_int_eq(begin(3), 0);
    ck_assert_int_eq(count, 3);
    end_one(0);
    ck_assert_int_eq(connections, 1);
    ck_assert_int_eq(count, 2);
    connections--;
    acceptor_more(&acceptor);
    ck_assert_int_eq(count, 3);
    space = 100;
    acceptor_more(&acceptor);
    ck_assert_int_eq(count, ACCEPTOR_PLACES);
    end_one(0);
    end_one(ECONNABORTED); /* caused by the peer: the acceptor starts another accept immediately */
    ck_assert_int_eq(count, ACCEPTOR_PLACES);
    ck_assert_int_eq(connections, 1);
    ck_assert_int_eq(lines, 1);
    ck_assert(!ev_is_active(&acceptor.again));
}
END_TEST

START_TEST(nothing_to_begin_with)
{
    refused = ENOMEM;
    ck_assert_int_eq(begin(3), -1);
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_int_eq(lines, 0);
}
END_TEST

/* If an accept cannot be started, the others stay pending; a second later the acceptor starts the missing one. */
START_TEST(does_not_start)
{
    ck_assert_int_eq(begin(3), 0);
    refused = ENOMEM;
    space = 4;
    acceptor_more(&acceptor);
    ck_assert_int_eq(count, 3);
    ck_assert_str_eq(last, "cannot accept: Cannot allocate memory: trying again in a second");
    refused = 0;
    turn();
    ck_assert_int_eq(count, 4);
    ck_assert_int_eq(lines, 1);
    ck_assert(!ev_is_active(&acceptor.again));
}
END_TEST

/* After an accept failed because a resource was exhausted, the acceptor waits before it starts another one. */
START_TEST(ends_short_of_something)
{
    ck_assert_int_eq(begin(3), 0);
    end_one(EMFILE);
    ck_assert_int_eq(count, 2);
    ck_assert_str_eq(last, "a connection failed: Too many open files");
    turn();
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(lines, 1);
}
END_TEST

START_TEST(ended)
{
    ck_assert_int_eq(begin(3), 0);
    end_one(EMFILE);
    acceptor_end(&acceptor);
    ck_assert(!ev_is_active(&acceptor.again));
    end_one(ECANCELED);
    end_one(ENOMEM);
    acceptor_more(&acceptor);
    ck_assert(!ev_is_active(&acceptor.again));
    ck_assert_int_eq(count, 0);
    ck_assert_int_eq(lines, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("acceptor");
    TCase *tcase = new_case(suite, "accepts");

    tcase_set_timeout(tcase, 40);
    tcase_add_test(tcase, as_many_as_there_is_room_for);
    tcase_add_test(tcase, nothing_to_begin_with);
    tcase_add_test(tcase, does_not_start);
    tcase_add_test(tcase, ends_short_of_something);
    tcase_add_test(tcase, ended);
    return run_suite(suite);
}
