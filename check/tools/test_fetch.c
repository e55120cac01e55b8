/* SPDX-License-Identifier: BSD-2-Clause */
/* What exs-get makes of a server that lies, and where a file may arrive. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/support/fake_exs.h"
#include "check/support/runner.h"
#include "tools/files/wishes.h"

enum { LARGE = LANDING_KEEP + 100 };

#define PART ".file.exs-part"

static char folder[] = "fetch-XXXXXX";
static int directory;
static struct blocks blocks;
static struct fetch fetch;
static unsigned char stream[LARGE + 4096]; /* what the server says */
static size_t length;

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    directory = open(folder, O_PATH | O_DIRECTORY);
    ck_assert_int_ne(directory, -1);
    fake_reset();
    fetch = (struct fetch){.limit = INT64_MAX, .block = block_take(&blocks)};
    fetch.client.sock = 1;
    length = 0;
    umask(022);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

static void teardown(void)
{
    block_return(&blocks, fetch.block);
    blocks_free(&blocks);
    ck_assert_int_eq(fake_regions, 0);
    close(directory);
    ck_assert_int_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- What a server says --------------------------------------------------------------------------------- */

static void say(const void *bytes, size_t count)
{
    ck_assert_uint_le(count, sizeof(stream) - length);
    memcpy(stream + length, bytes, count);
    length += count;
}

static void say_reply(unsigned status, const void *text, size_t text_length)
{
    const struct transfer_reply reply = {.status = (enum transfer_status)status, .text_length = text_length};
    unsigned char bytes[TRANSFER_REPLY];

    transfer_put_reply(bytes, &reply);
    say(bytes, sizeof(bytes));
    say(text, text_length);
}

static void say_coming(uint64_t size, uint64_t from)
{
    const struct transfer_header header = {
        .size = size, .mode = 0666, .seconds = 981173106, .nanoseconds = 789};
    unsigned char text[TRANSFER_COMING];

    transfer_put_coming(text, &header, from);
    say_reply(TRANSFER_COMES, text, sizeof(text));
}

static const unsigned char *noise(void)
{
    static unsigned char bytes[LARGE];

    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (unsigned char)(i * i >> 7);
    return bytes;
}

static void say_digest(size_t size)
{
    unsigned char digest[TRANSFER_DIGEST];
    XXH3_state_t *state = XXH3_createState();

    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, noise(), size);
    transfer_digest(state, digest);
    XXH3_freeState(state);
    say(digest, sizeof(digest));
}

static void say_file(size_t size, size_t from)
{
    say_coming(size, from);
    say(noise() + from, size - from);
    say_digest(size);
}

static void say_entry(unsigned kind, uint64_t size, const char *name)
{
    const struct transfer_entry entry = {
        .kind = (enum transfer_kind)kind, .name_length = strlen(name), .size = size};
    unsigned char bytes[TRANSFER_ENTRY];

    transfer_put_entry(bytes, &entry);
    say(bytes, sizeof(bytes));
    say(name, entry.name_length);
}

static void serve(void)
{
    fake_stream = stream;
    fake_stream_left = length;
}

/* ---- What is there -------------------------------------------------------------------------------------- */

static void make(const char *name, size_t size)
{
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    ck_assert_int_eq(write(fd, noise(), size), (ssize_t)size);
    close(fd);
}

static off_t size_of(const char *name)
{
    struct stat status;

    return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == -1 ? -1 : status.st_size;
}

static void expect_file(const char *name, size_t size)
{
    static unsigned char bytes[LARGE + 1];
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW);

    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(read(fd, bytes, sizeof(bytes)), (ssize_t)size);
    ck_assert_int_eq(memcmp(bytes, noise(), size), 0);
    close(fd);
}

static int get(const char *name)
{
    struct landing landing;
    int result = landing_open(&landing, directory, name);

    if (result == 0) {
        serve();
        result = fetch_file(&fetch, name, &landing);
    } else {
        snprintf(fetch.client.error, sizeof(fetch.client.error), "%s", strerror(errno));
    }
    int saved = errno;

    landing_end(&landing);
    errno = saved;
    return result;
}

static void expect_failure(const char *want)
{
    ck_assert_int_eq(get("file"), -1);
    ck_assert_msg(strstr(fetch.client.error, want) != NULL, "said: %s", fetch.client.error);
    ck_assert_int_eq(size_of("file"), -1);
    ck_assert_int_eq(fetch.client.sock, -1); /* the conversation is over */
}

/* ---- Files ---------------------------------------------------------------------------------------------- */

START_TEST(whole)
{
    static const size_t sizes[] = {0, 1, LARGE};
    struct stat status;

    make("file", 5); /* is replaced */
    say_file(sizes[_i], 0);
    ck_assert_msg(get("file") == 0, "%s", fetch.client.error);
    expect_file("file", sizes[_i]);
    ck_assert_int_eq(fstatat(directory, "file", &status, 0), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0644);
    ck_assert_int_eq(status.st_mtim.tv_sec, 981173106);
    ck_assert_int_eq(status.st_mtim.tv_nsec, 789);
    ck_assert_int_eq(size_of(PART), -1);
    ck_assert_int_eq(fetch.client.sock, 1);
}
END_TEST

START_TEST(in_folders)
{
    say_file(3, 0);
    ck_assert_int_eq(get("a/b/file"), 0);
    expect_file("a/b/file", 3);
    symlinkat("a", directory, "link");
    ck_assert_int_eq(get("link/file"), -1);
    ck_assert_int_eq(errno, ENOTDIR);
    ck_assert_int_eq(size_of("a/file"), -1);
}
END_TEST

/* In place of a right answer; nothing is left. */
START_TEST(lies)
{
    switch (_i) {
    case 0:
        say_reply(TRANSFER_REFUSED, "no \x1b[2J", 7);
        expect_failure("the server does not give it: no ?[2J");
        break;
    case 1:
        say_reply(TRANSFER_STORED, "stored", 6);
        expect_failure("the server answered something else");
        break;
    case 2:
        say_reply(TRANSFER_LISTS, "", 0);
        expect_failure("the server answered something else");
        break;
    case 3:
        say_reply(TRANSFER_LISTS + 1, "", 0);
        expect_failure("is this an exs-serve?");
        break;
    case 4:
        say_reply(TRANSFER_COMES, "short", 5);
        expect_failure("is this an exs-serve?");
        break;
    case 5:
        say_coming(UINT64_C(1) << 63, 0);
        expect_failure("a file cannot be that long");
        break;
    case 6:
        say_coming(4, 5);
        expect_failure("a file cannot be that long");
        break;
    case 7:
        say_coming(4, 4); /* it has nothing of it */
        expect_failure("there is no such place to go on");
        break;
    case 8:
        say_file(10, 0);
        stream[length - 1] ^= 1;
        expect_failure("the digests differ");
        break;
    case 9:
        say_file(10, 0);
        stream[TRANSFER_REPLY + TRANSFER_COMING] ^= 1;
        expect_failure("the digests differ");
        break;
    case 10:
        say_coming(10, 0);
        stream[TRANSFER_REPLY + 16] = 0xff; /* a mode */
        expect_failure("no more than permissions");
        break;
    case 11:
        fetch.limit = 9;
        say_file(10, 0);
        expect_failure("exs-get -s says");
        break;
    default:
        say_file(10, 0);
        stream[0] = 'X';
        expect_failure("is this an exs-serve?");
    }
    ck_assert_int_eq(size_of(PART), -1);
}
END_TEST

START_TEST(cut)
{
    say_file(10, 0);
    length = (size_t)_i;
    expect_failure("no answer from the server: it closed the connection");
    ck_assert_int_eq(size_of(PART), -1);
}
END_TEST

/* ---- What was broken off -------------------------------------------------------------------------------- */

START_TEST(goes_on)
{
    say_file(LARGE, 0);
    length -= TRANSFER_DIGEST + 50;
    expect_failure("no answer from the server");
    off_t there = size_of(PART);
    ck_assert_int_eq(there, LANDING_KEEP); /* what came whole */
    length = 0;
    if (_i == 0)
        say_file(LARGE, (size_t)there);
    else
        say_file(LARGE, 0); /* the server's is another file meanwhile */
    fetch.client.sock = 1;
    ck_assert_msg(get("file") == 0, "%s", fetch.client.error);
    expect_file("file", LARGE);
    ck_assert_uint_eq(fetch.resumed, _i == 0 ? (uint64_t)there : 0);
    ck_assert_int_eq(size_of(PART), -1);
}
END_TEST

/* A longer one than the file that comes, and one that is too short to be worth it. */
START_TEST(goes_not_on)
{
    make(PART, _i == 0 ? LARGE : LANDING_KEEP - 1);
    say_file(10, 0);
    ck_assert_int_eq(get("file"), 0);
    expect_file("file", 10);
}
END_TEST

/* The digest is of what was there, too; that is wrong then, and does not stay. */
START_TEST(wrong_part)
{
    int fd;

    make(PART, LANDING_KEEP);
    fd = openat(directory, PART, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "wrong", 5, 77), 5);
    close(fd);
    say_file(LARGE, LANDING_KEEP);
    expect_failure("the digests differ");
    ck_assert_int_eq(size_of(PART), -1);
}
END_TEST

/* What has the temporary name is somebody else's; nothing happens to it. */
START_TEST(foreign_part)
{
    static const int errors[] = {EEXIST, EEXIST, EEXIST, EEXIST, EBUSY};
    int fd = -1;

    make("other", LANDING_KEEP);
    if (_i == 0)
        symlinkat("other", directory, PART);
    else if (_i == 1)
        linkat(directory, "other", directory, PART, 0);
    else if (_i == 2)
        mkdirat(directory, PART, 0700);
    else if (_i == 3)
        mkfifoat(directory, PART, 0600);
    else {
        make(PART, LANDING_KEEP);
        fd = openat(directory, PART, O_RDWR);
        ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    }
    say_file(10, 0);
    ck_assert_int_eq(get("file"), -1);
    ck_assert_int_eq(errno, errors[_i]);
    expect_file("other", LANDING_KEEP);
    ck_assert_int_ne(size_of(PART), -1);
    ck_assert_int_eq(size_of("file"), -1);
    if (fd != -1)
        close(fd);
}
END_TEST

/* A name may be as long as it may. */
START_TEST(longest_name)
{
    char name[TRANSFER_NAME_MAX + 1];

    memset(name, 'n', TRANSFER_NAME_MAX);
    name[TRANSFER_NAME_MAX] = '\0';
    say_file(LARGE, 0);
    ck_assert_int_eq(get(name), 0);
    expect_file(name, LARGE);
}
END_TEST

/* By a folder, or by what would be replaced for others, too: told before anything is asked for, and left as it
 * is. */
START_TEST(name_is_taken)
{
    struct landing landing;
    struct stat status;

    mkdirat(directory, "file", 0700);
    ck_assert_int_eq(landing_open(&landing, directory, "file"), -1);
    ck_assert_int_eq(errno, EISDIR);
    landing_end(&landing);
    ck_assert_int_eq(mkfifoat(directory, "pipe", 0600), 0);
    ck_assert_int_eq(landing_open(&landing, directory, "pipe"), -1);
    ck_assert_int_eq(errno, ENODEV);
    landing_end(&landing);
    ck_assert(fstatat(directory, "pipe", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISFIFO(status.st_mode));
}
END_TEST

/* By a folder that somebody makes meanwhile. */
START_TEST(name_is_taken_meanwhile)
{
    struct landing landing;

    say_file(10, 0);
    ck_assert_int_eq(landing_open(&landing, directory, "file"), 0);
    mkdirat(directory, "file", 0700);
    serve();
    ck_assert_int_eq(fetch_file(&fetch, "file", &landing), -1);
    ck_assert_ptr_nonnull(strstr(fetch.client.error, "cannot write"));
    landing_end(&landing);
    ck_assert_int_eq(size_of(PART), -1);
}
END_TEST

/* ---- Lists ---------------------------------------------------------------------------------------------- */

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

START_TEST(lying_lists)
{
    static const char *const names[] = {"..", "../up", "/etc", ".hidden", "a/b", "a\nb", "."};

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
    } else {
        fetch.listed = FETCH_LISTED_MAX;
        say_entry(TRANSFER_FILE, 0, "a");
        expect_no_list("more than a million files");
    }
    ck_assert_int_eq(fetch.client.sock, -1);
}
END_TEST

/* Folders in folders without end: they are not asked for any more where names get too long. */
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
    ck_assert_ptr_nonnull(strstr(picks.list[0].problem, "more than 32 folders"));
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
    Suite *suite = suite_create("fetch");
    TCase *tcase = tcase_create("lies");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, whole, 0, 3);
    tcase_add_test(tcase, in_folders);
    tcase_add_loop_test(tcase, lies, 0, 13);
    tcase_add_loop_test(tcase, cut, 0, TRANSFER_REPLY + TRANSFER_COMING + 10 + TRANSFER_DIGEST);
    tcase_add_loop_test(tcase, goes_on, 0, 2);
    tcase_add_loop_test(tcase, goes_not_on, 0, 2);
    tcase_add_test(tcase, wrong_part);
    tcase_add_loop_test(tcase, foreign_part, 0, 5);
    tcase_add_test(tcase, longest_name);
    tcase_add_test(tcase, name_is_taken);
    tcase_add_test(tcase, name_is_taken_meanwhile);
    tcase_add_test(tcase, tree);
    tcase_add_loop_test(tcase, lying_lists, 0, 13);
    tcase_add_test(tcase, bottomless);
    tcase_add_loop_test(tcase, plain_names, 0, 5);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
