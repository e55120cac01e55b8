/* SPDX-License-Identifier: BSD-2-Clause */
/* test_fetch_lists.c - tools/files/fetch.h and wishes.h: a server's lists of folders, valid and invalid ones. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "check/support/runner.h"
#include "fetch_fixture.h"

static void expect_no_list(const char *want)
{
    struct picks picks = {0};

    serve();
    ck_assert_int_eq(wishes_add_tree(&picks, &fetch, "top"), -1);
    ck_assert_msg(strstr(fetch.client.error, want) != NULL, "said: %s", fetch.client.error);
    picks_free(&picks);
}

START_TEST(tree)
{
    static const char *const want[][2] = {
        {"a/top/b", "top/b"}, {"a/top/in/x", "top/in/x"}, {"a/top/z", "top/z"}};
    struct picks picks = {0};

    say_reply(TRANSFER_LISTS, "", 0);
    say_entry(TRANSFER_FILE, 1, "z");
    say_entry(TRANSFER_FOLDER, 0, "in");
    say_entry(TRANSFER_FILE, 1, "b");
    say_entry(TRANSFER_NO_MORE, 0, "");
    say_reply(TRANSFER_LISTS, "", 0);
    say_entry(TRANSFER_FILE, 1, "x");
    say_entry(TRANSFER_NO_MORE, 0, "");
    say_reply(TRANSFER_LISTS, "", 0);
    say_entry(TRANSFER_FILE, 1, "");
    say_entry(TRANSFER_NO_MORE, 0, "");
    serve();
    ck_assert_msg(wishes_add_tree(&picks, &fetch, "a/top") == 0, "%s", fetch.client.error);
    ck_assert_msg(wishes_add_tree(&picks, &fetch, "a/single") == 0, "%s", fetch.client.error);
    ck_assert_uint_eq(picks.count, 4);
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(picks.list[i].path, want[i][0]);
        ck_assert_str_eq(picks.list[i].name, want[i][1]);
    }
    ck_assert_str_eq(picks.list[3].path, "a/single");
    ck_assert_str_eq(picks.list[3].name, "single");
    picks_free(&picks);
}
END_TEST

/* A folder that the server refuses to list is reported, and the others are fetched on a new connection. */
START_TEST(closed_folder)
{
    static struct sockaddr_in somewhere = {.sin_family = AF_INET};
    struct addrinfo address = {.ai_addr = (struct sockaddr *)&somewhere, .ai_addrlen = sizeof(somewhere)};
    static const char *const want[] = {"top/closed", "top/open/x", "top/z"};
    struct picks picks = {0};

    say_reply(TRANSFER_LISTS, "", 0);
    say_entry(TRANSFER_FOLDER, 0, "closed");
    say_entry(TRANSFER_FOLDER, 0, "open");
    say_entry(TRANSFER_FILE, 1, "z");
    say_entry(TRANSFER_NO_MORE, 0, "");
    say_reply(TRANSFER_REFUSED, "no", 2);
    say_reply(TRANSFER_LISTS, "", 0);
    say_entry(TRANSFER_FILE, 1, "x");
    say_entry(TRANSFER_NO_MORE, 0, "");
    serve();
    fetch.client.addresses = &address;
    ck_assert_msg(wishes_add_tree(&picks, &fetch, "top") == 0, "%s", fetch.client.error);
    ck_assert_uint_eq(picks.count, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(picks.list[i].path, want[i]);
        ck_assert((picks.list[i].problem != NULL) == (i == 0));
    }
    ck_assert_str_eq(picks.list[0].problem, "the server does not list this folder");
    ck_assert_str_eq(fetch.client.device, "fake");
    picks_free(&picks);
}
END_TEST

START_TEST(lying_lists)
{
    static const char *const names[] = {"..", "../up", "/etc", ".recv_ring", "a/b", "a\nb", "."};

    say_reply(TRANSFER_LISTS, "", 0);
    if (_i < 7) {
        say_entry(TRANSFER_FILE, 1, names[_i]);
        expect_no_list("a name that no file may have");
    } else if (_i == 7) {
        say_entry(TRANSFER_FOLDER + 1, 1, "a");
        expect_no_list("this is no list");
    } else if (_i == 8) {
        say_entry(TRANSFER_FILE, UINT64_MAX, "a");
        expect_no_list("this is no list");
    } else if (_i == 9) {
        say_entry(TRANSFER_FOLDER, 0, "");
        say_entry(TRANSFER_NO_MORE, 0, "");
        expect_no_list("this is no list");
    } else if (_i == 10) {
        say_entry(TRANSFER_FILE, 0, "");
        say_entry(TRANSFER_FILE, 0, "a");
        say_entry(TRANSFER_NO_MORE, 0, "");
        expect_no_list("this is no list");
    } else if (_i == 11) {
        say_entry(TRANSFER_FILE, 0, "a");
        expect_no_list("it closed the connection");
    } else if (_i == 12) {
        fetch.listed = FETCH_LISTED_MAX;
        say_entry(TRANSFER_FILE, 0, "a");
        expect_no_list("more than a million files");
    } else {
        fetch.listed_bytes =
            FETCH_LISTED_BYTES - strlen("top/a"); /* enough for one more entry, but not for two */
        say_entry(TRANSFER_FILE, 0, "a");
        say_entry(TRANSFER_FILE, 0, "b");
        expect_no_list("more than 128 MiB of names");
        ck_assert_uint_eq(fetch.listed, 2);
    }
    ck_assert_int_eq(fetch.client.sock, -1);
}
END_TEST

/* Folders nested without limit: the client stops at the maximum length of a path. */
START_TEST(bottomless)
{
    struct picks picks = {0};

    for (int depth = 0; depth < TRANSFER_FOLDERS_MAX; depth++) {
        say_reply(TRANSFER_LISTS, "", 0);
        say_entry(TRANSFER_FOLDER, 0, "in");
        say_entry(TRANSFER_NO_MORE, 0, "");
    }
    say_reply(TRANSFER_LISTS, "", 0);
    say_entry(TRANSFER_FOLDER, 0, "in");
    say_entry(TRANSFER_NO_MORE, 0, "");
    serve();
    ck_assert_msg(wishes_add_tree(&picks, &fetch, "top") == 0, "%s", fetch.client.error);
    ck_assert_uint_eq(picks.count, 1);
    ck_assert_ptr_nonnull(strstr(picks.list[0].problem, "more than 256 folders"));
    picks_free(&picks);
}
END_TEST

START_TEST(plain_names)
{
    static const char *const rows[][2] = {{"a", "a"}, {"/a/b/", "a/b"}, {"/", ""}, {"///", ""}, {"", ""}};
    char name[16];

    snprintf(name, sizeof(name), "%s", rows[_i][0]);
    wishes_plain(name);
    ck_assert_str_eq(name, rows[_i][1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fetch lists");
    TCase *tcase = fetch_case(suite, "lists");

    tcase_add_test(tcase, tree);
    tcase_add_test(tcase, closed_folder);
    tcase_add_loop_test(tcase, lying_lists, 0, 14);
    tcase_add_test(tcase, bottomless);
    tcase_add_loop_test(tcase, plain_names, 0, 5);
    return run_suite(suite);
}
