/* SPDX-License-Identifier: BSD-2-Clause */
/* test_intake_special.c - links, folders and hidden names that the server receives or lists, with clients of this
 * release and of release 2.1. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conversation.h"

static const struct transfer_header a_link = {.kind = TRANSFER_LINK, .mode = 0777, .seconds = 1000000000};
static const struct transfer_header a_folder = {.kind = TRANSFER_FOLDER, .mode = 0750, .seconds = 1000000000};

static struct message compose_link(const char *name, const char *target, size_t length)
{
    return compose_with(&a_link, name, strlen(name), target, length);
}

static void expect_link(const char *name, const char *want)
{
    char target[TRANSFER_PATH_MAX + 1];
    ssize_t length = readlinkat(store.directory, name, target, sizeof(target));

    ck_assert_msg(length == (ssize_t)strlen(want) && memcmp(target, want, strlen(want)) == 0,
                  "%s is not a link to %s", name, want);
}

/* A client sends a link byte by byte, or all at once. */
START_TEST(links)
{
    struct message m = compose_link("sub/link", "../../outside", 13), again = compose_link("sub/link", "x", 1);

    store.limits.archive = true;
    ck_assert_uint_eq(feed(&m, _i == 0 ? 1 : m.length), m.length);
    expect_reply(TRANSFER_STORED);
    expect_link("sub/link", "../../outside");
    ck_assert_int_eq(status_of("sub").st_mode & 0777, 0777 & ~store.recent.mask);
    ck_assert_uint_eq(store.files, 2); /* the link and its folder */
    feed(&again, again.length);
    expect_reply(TRANSFER_STORED);
    expect_link("sub/link", "x");
}
END_TEST

/* A file is never stored through a link, whether the link is a component of its path or has its name. */
START_TEST(link_leads_nowhere)
{
    struct message m = compose_link("link", "..", 2), through = compose("link/file", 9, "data", 4);
    struct message folder_through = compose_with(&a_folder, "link/new", 8, "", 0);
    struct message place = compose("link", 4, "data", 4);

    store.limits.archive = true;
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    if (_i == 0) {
        intake_feed(&intake, through.bytes, through.data_at);
        expect_reply(TRANSFER_FAILED);
        expect_absent("../file");
    } else if (_i == 1) {
        feed(&folder_through, 1);
        expect_reply(TRANSFER_FAILED);
        expect_absent("../new");
    } else {
        feed(&place, 1);
        expect_reply(TRANSFER_STORED);
        expect_stored("link", "data", 4);
    }
}
END_TEST

/* Invalid: a 0 byte in a target, no target, a target that is too long, both flags, and a folder with data. */
START_TEST(bad_links)
{
    static const char long_target[5000] = "x";
    struct message m = compose_link("link", _i == 0 ? "a\0b" : long_target, _i == 0 ? 3 : _i == 1 ? 0 : 5000);

    if (_i >= 3)
        m = compose_with(_i == 3 ? &a_link : &a_folder, "link", 4, "x", 1);
    if (_i == 3)
        m.bytes[TRANSFER_HEAD + 3] = TRANSFER_IS_LINK | TRANSFER_IS_FOLDER;
    store.limits.archive = true;
    expect_refused(&m, _i == 0 ? TRANSFER_DIFFERS : TRANSFER_MALFORMED);
    expect_absent("link");
}
END_TEST

START_TEST(not_told_to)
{
    struct message link = compose_link("link", "target", 6), hidden = compose("sub/.hidden", 11, "data", 4);

    expect_refused(_i == 0 ? &link : &hidden, TRANSFER_REFUSED);
    expect_absent("link");
    expect_absent("sub");
}
END_TEST

static const char *const hidden_names[] = {".hidden", "..x", ".git/config", ".exs-", ".exs-7.par", "x/.exs"};
static const char *const bad_names[] = {
    ".", "..", "x/..", "../x", "x/./y", ".exs-7.part", "x/.exs-a.part", ".exs-.part", ".name.exs-part"};

START_TEST(hidden)
{
    struct message m = compose(hidden_names[_i], strlen(hidden_names[_i]), "data", 4);

    store.limits.archive = true;
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    expect_stored(hidden_names[_i], "data", 4);
}
END_TEST

START_TEST(never_names)
{
    struct message m = compose(bad_names[_i], strlen(bad_names[_i]), "data", 4);

    store.limits.archive = true;
    expect_refused(&m, TRANSFER_REFUSED);
}
END_TEST

/* A folder needs no option. It keeps the set-group-ID bit inherited from its parent, and its owner has all
 * permissions. */
START_TEST(folders)
{
    struct transfer_header closed = a_folder;
    struct message m = compose_with(&a_folder, "sub/inner", 9, "", 0);

    feed(&m, 1);
    expect_reply(TRANSFER_STORED);
    ck_assert_int_eq(status_of("sub/inner").st_mode & 07777, 0750);
    ck_assert_int_eq(status_of("sub/inner").st_mtim.tv_sec, 1000000000);
    ck_assert_uint_eq(store.files, 2);
    ck_assert_int_eq(fchmodat(store.directory, "sub/inner", 02750, 0), 0);
    closed.mode = 0;
    m = compose_with(&closed, "sub/inner", 9, "", 0);
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_int_eq(status_of("sub/inner").st_mode & 07777, 02700);
    ck_assert_uint_eq(store.files, 2);
}
END_TEST

START_TEST(count_limit)
{
    struct message link = compose_link("link", "target", 6), folder = compose_with(&a_folder, "a/b", 3, "", 0);

    store.limits.archive = true;
    store.limits.files = 1;
    feed(&link, link.length);
    expect_reply(TRANSFER_STORED);
    expect_refused(_i == 0 ? &link : &folder, TRANSFER_REFUSED);
    expect_absent("a");
}
END_TEST

/* ---- Lists --------------------------------------------------------------------------------------------- */

static char listed[512];

/* Gets the list of the directory in this version. The file system determines its order. */
static void list(enum transfer_version version, uint64_t wants)
{
    struct transfer_header header = {.version = version, .name_length = 1, .size = wants}, details;
    unsigned char message[TRANSFER_HEADER + 1];
    exs_xferfile_t vector[GIVING_PARTS];
    struct transfer_entry entry;

    transfer_put_header(message, &header);
    message[TRANSFER_HEADER] = '/';
    intake_feed(&intake, message, sizeof(message));
    ck_assert_ptr_nonnull(intake.giving);
    ck_assert_int_eq(giving_next(intake.giving, vector), 2);
    const unsigned char *at = vector[1].exs_xfv.exs_iov.exs_base;
    size_t fixed = TRANSFER_ENTRY + (version == TRANSFER_WANTS ? 0 : TRANSFER_DETAILS);

    listed[0] = '\0';
    for (; transfer_get_entry(at, &entry) && entry.kind != TRANSFER_NO_MORE; at += fixed + entry.name_length) {
        size_t end = strlen(listed);

        details.size = entry.size;
        if (version != TRANSFER_WANTS) {
            ck_assert_ptr_null(transfer_read_details(at + TRANSFER_ENTRY, &details));
            ck_assert_int_eq(details.kind, entry.kind);
        }
        snprintf(listed + end, sizeof(listed) - end, "%d%.*s ", (int)entry.kind, (int)entry.name_length,
                 (const char *)at + fixed);
    }
    giving_close(intake_take_giving(&intake));
}

static bool has_entry(const char *entry)
{
    return strstr(listed, entry) != NULL;
}

/* A client of release 2.1 supports neither links nor hidden names; a client of this release requests them. */
START_TEST(lists)
{
    struct message file = compose("file", 4, "data", 4), dot = compose(".dot", 4, "data", 4);
    struct message link = compose_link("link", "target", 6);

    store.limits.gives = store.limits.archive = true;
    feed(&file, file.length), expect_reply(TRANSFER_STORED);
    feed(&dot, dot.length), expect_reply(TRANSFER_STORED);
    feed(&link, link.length), expect_reply(TRANSFER_STORED);
    list(_i == 0 ? TRANSFER_WANTS : TRANSFER_WANTS_LINKS, _i == 2 ? TRANSFER_ALL : 0);
    ck_assert_msg(has_entry("1file "), "listed: %s", listed);
    ck_assert_msg(has_entry("1.dot ") == (_i == 2), "listed: %s", listed);
    ck_assert_msg(has_entry("3link ") == (_i == 2), "listed: %s", listed);
}
END_TEST

/* A request for all is refused if the server would send a part only. */
START_TEST(wants_too_much)
{
    struct transfer_header header = {.version = TRANSFER_WANTS_LINKS, .name_length = 1, .size = TRANSFER_ALL};
    unsigned char message[TRANSFER_HEADER + 1];

    store.limits.gives = true;
    transfer_put_header(message, &header);
    message[TRANSFER_HEADER] = '/';
    intake_feed(&intake, message, sizeof(message));
    ck_assert_ptr_null(intake.giving);
    ck_assert_ptr_nonnull(strstr(intake_text(&intake), "neither links nor hidden files (exs-serve -A)"));
    expect_reply(TRANSFER_REFUSED);
}
END_TEST

int main(void)
{
    TCase *tcase = conversations("special");

    tcase_add_loop_test(tcase, links, 0, 2);
    tcase_add_loop_test(tcase, link_leads_nowhere, 0, 3);
    tcase_add_loop_test(tcase, bad_links, 0, 5);
    tcase_add_loop_test(tcase, not_told_to, 0, 2);
    tcase_add_loop_test(tcase, hidden, 0, (int)(sizeof(hidden_names) / sizeof(hidden_names[0])));
    tcase_add_loop_test(tcase, never_names, 0, (int)(sizeof(bad_names) / sizeof(bad_names[0])));
    tcase_add_test(tcase, folders);
    tcase_add_loop_test(tcase, count_limit, 0, 2);
    tcase_add_loop_test(tcase, lists, 0, 3);
    tcase_add_test(tcase, wants_too_much);
    return conversations_run();
}
