/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_roce_port_taken.c - the error messages if UDP port 4791 is unavailable: another program has it, or another user,
 * or another user has the names by which a user's programs find each other, or all of its shares are in use.
 *
 * In a network namespace of its own, in which only this test uses the port.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include "check/support/abstract.h"
#include "check/support/endpoints.h"
#include "check/support/twonets.h"
#include "core/base/settings.h"
#include "soft/link/roce_port.h"
#include "soft/service/home.h"

#define USER 4711 /* another user than the test's */

static void ask_for_it(const char *value)
{
    ck_assert_int_eq(setenv("EXS_ROCE", value, 1), 0);
    settings_read(NULL);
}

/* Opens a context, which must succeed (error 0) or fail with this errno, and stores the messages in `text`. */
static void opening_says(int error, char *text, size_t size)
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    struct soft_home *home;

    ck_assert(file && before != -1);
    ck_assert_int_ne(dup2(fileno(file), STDERR_FILENO), -1);
    errno = 0;
    home = home_open_named();
    ck_assert_int_eq(home == NULL ? errno : 0, error);
    ck_assert_int_ne(dup2(before, STDERR_FILENO), -1);
    close(before);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
    if (home)
        home_close(home);
}

/* Binds the port like another program: exclusively, with SO_REUSEPORT, or over IPv6 only. */
static int occupy(sa_family_t family, bool shared)
{
    union soft_addr any = {.in6.sin6_family = family};
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

    any.in.sin_port = htons(SOFT_UDP_PORT);
    if (shared)
        ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
    if (family == AF_INET6)
        ck_assert_int_eq(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), 0);
    expect(bind(fd, &any.sa, sizeof any) == 0, "bind: %s", strerror(errno));
    return fd;
}

/* ---- The port ---- */

static const struct {
    sa_family_t family;
    bool shared;
} occupants[] = {{AF_INET, false}, {AF_INET6, false}, {AF_INET, true}};

START_TEST(somebody_else_has_it)
{
    int fd = occupy(occupants[_i].family, occupants[_i].shared);
    char text[500];

    opening_says(EADDRINUSE, text, sizeof text);
    ck_assert_str_eq(text,
                     "exs: UDP port 4791, which EXS_ROCE=on asks for, is unavailable: another program has it: "
                     "see ss -ulpn sport = :4791\n");
    ask_for_it("auto");
    opening_says(0, text, sizeof text);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(setenv("EXS_DEBUG", "1", 1), 0);
    settings_read(NULL);
    opening_says(0, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "EXS_ROCE=auto asks for, is unavailable"));
    close(fd);
    opening_says(0, text, sizeof text);
    ck_assert_str_eq(text, "");
}
END_TEST

/* The message names the other user's ID only if there are several users: root can see it, a user namespace with a
 * single user can't. */
START_TEST(another_user_has_it)
{
    char text[500];
    int fd;

    if (seteuid(USER) == -1)
        return;
    fd = occupy(AF_INET, false);
    ck_assert_int_eq(seteuid(0), 0);
    opening_says(EADDRINUSE, text, sizeof text);
    ck_assert_str_eq(
        text, "exs: UDP port 4791, which EXS_ROCE=on asks for, is unavailable: programs of user 4711 have it, "
              "and only one user's can: end them, or run as that user\n");
    close(fd);
}
END_TEST

/* The port is bound only if EXS_ROCE asks for it. */
START_TEST(not_unless_asked_for)
{
    static const char *const values[] = {"off", ""};
    struct soft_home *home;

    ask_for_it(values[_i]);
    ck_assert_ptr_nonnull(home = home_open_named());
    close(occupy(AF_INET, false));
    close(occupy(AF_INET6, false));
    home_close(home);
}
END_TEST

/* ---- The names ---- */

static int take_name(int share, int places)
{
    char name[40];
    int fd;

    snprintf(name, sizeof name, "exs/roce/0/%d", share);
    fd = abstract_take(name, SOCK_SEQPACKET);
    ck_assert_int_eq(listen(fd, places), 0);
    return fd;
}

/* Another user has only abstract names: those of some shares or of all, or the name that serializes joining. Only root
 * can test this. */
START_TEST(another_user_has_the_names)
{
    enum { TURN = -1 };
    static const char told[] = "another user has names by which your programs find each other: see ss -xlp\n";
    int listeners[ROCE_SHARES], turn, waiting;
    char text[500];

    if (seteuid(USER) == -1)
        return;
    listeners[0] = take_name(0, 0);
    listeners[1] = take_name(1, 16);
    waiting = abstract_visit("exs/roce/0/0"); /* fills the queue of the listener */
    ck_assert_int_ne(waiting, -1);
    ck_assert_int_eq(seteuid(0), 0);
    opening_says(0, text, sizeof text);
    ck_assert_int_eq(seteuid(USER), 0);
    turn = take_name(TURN, 16);
    ck_assert_int_eq(seteuid(0), 0);
    opening_says(EPERM, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, told));
    close(turn);
    ck_assert_int_eq(seteuid(USER), 0);
    for (int share = 2; share < ROCE_SHARES; share++)
        listeners[share] = take_name(share, 16);
    ck_assert_int_eq(seteuid(0), 0);
    opening_says(EPERM, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, told));
    for (int share = 0; share < ROCE_SHARES; share++)
        close(listeners[share]);
    close(waiting);
    opening_says(0, text, sizeof text);
    ck_assert_str_eq(text, "");
}
END_TEST

/* ---- The shares ---- */

START_TEST(all_shares_are_taken)
{
    struct soft_home *homes[ROCE_SHARES];
    char text[500];

    for (int i = 0; i < ROCE_SHARES; i++)
        ck_assert_ptr_nonnull(homes[i] = home_open_named());
    opening_says(EUSERS, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "16 contexts share it already, which is the maximum: close some"));
    home_close(homes[3]);
    opening_says(0, text, sizeof text);
    ck_assert_str_eq(text, "");
    for (int i = 0; i < ROCE_SHARES; i++)
        if (i != 3)
            home_close(homes[i]);
}
END_TEST

/* ---- The program ---- */

static void ask_for_it_plainly(void)
{
    ask_for_it("on");
}

static Suite *suite(void)
{
    Suite *suite = suite_create("roce port that is taken");
    TCase *tcase = new_case(suite, "roce port that is taken");

    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, ask_for_it_plainly, NULL);
    tcase_add_loop_test(tcase, somebody_else_has_it, 0, 3);
    tcase_add_test(tcase, another_user_has_it);
    tcase_add_loop_test(tcase, not_unless_asked_for, 0, 2);
    tcase_add_test(tcase, another_user_has_the_names);
    tcase_add_test(tcase, all_shares_are_taken);
    return suite;
}

int main(void)
{
    return twonets_main(twonets_alone, suite);
}
