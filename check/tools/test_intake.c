/* SPDX-License-Identifier: BSD-2-Clause */
/* The server's side of the file transfer, without a network: pieces of every size, and bytes nobody should
 * send. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tools/files/intake.h"
#include "tools/files/kept.h"

/* ---- A peer that goes on writing into what it has sent, and a folder that is not what it was ----------- */

static void *still_writable; /* what a peer may write to at any time: it does when a file is written */
static bool excl_is_ignored; /* as on file systems that know no O_EXCL */

/* In place of libc's. */
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
    if (still_writable != NULL)
        memset(still_writable, 'X', 1);
    return (ssize_t)syscall(SYS_pwrite64, fd, data, length, offset);
}

int openat(int directory, const char *path, int flags, ...)
{
    va_list rest;

    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;

    va_end(rest);
    return (int)syscall(SYS_openat, directory, path, excl_is_ignored ? flags & ~O_EXCL : flags, mode);
}

/* ---- Conversations ------------------------------------------------------------------------------------- */

static char folder[] = "intake-XXXXXX";
static const struct store_limits limits = {.file = 2 << 20, .total = 8 << 20, .files = 1000};
static struct store store;
static struct intake intake;

/* A whole conversation about one file; the caller may damage it. */
struct message {
    unsigned char bytes[2048];
    size_t length, data_at, digest_at;
};

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(store_open(&store, folder, &limits), 0);
    ck_assert_int_eq(intake_open(&intake, &store), 0);
}

/* With what is in it. */
static void remove_folder(const char *path)
{
    struct dirent *entry;
    char inner[2048];

    DIR *stream = opendir(path);
    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ck_assert_msg(strstr(entry->d_name, ".part") == NULL, "a temporary file is left: %s", entry->d_name);
        snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
        if (entry->d_type == DT_DIR)
            remove_folder(inner);
        else
            unlink(inner);
    }
    closedir(stream);
    rmdir(path);
}

static void teardown(void)
{
    intake_close(&intake);
    store_close(&store);
    remove_folder(folder);
}

static struct message compose_with(const struct transfer_header *details, const char *name, size_t name_length,
                                   const char *data, size_t size)
{
    struct message m = {.data_at = TRANSFER_HEADER + name_length};
    struct transfer_header header = *details;
    XXH3_state_t *state = XXH3_createState();

    header.name_length = name_length;
    header.size = size;
    transfer_put_header(m.bytes, &header);
    memcpy(m.bytes + TRANSFER_HEADER, name, name_length);
    memcpy(m.bytes + m.data_at, data, size);
    m.digest_at = m.data_at + size;
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, data, size);
    transfer_digest(state, m.bytes + m.digest_at);
    XXH3_freeState(state);
    m.length = m.digest_at + TRANSFER_DIGEST;
    return m;
}

static struct message compose(const char *name, size_t name_length, const char *data, size_t size)
{
    const struct transfer_header plain = {.mode = 0644, .seconds = 1000000000};

    return compose_with(&plain, name, name_length, data, size);
}

/* The same as a client of version 1 says it. */
static struct message as_version_1(struct message m)
{
    m.bytes[5] = 1;
    memmove(m.bytes + TRANSFER_HEAD, m.bytes + TRANSFER_HEADER, m.length - TRANSFER_HEADER);
    m.length -= TRANSFER_DETAILS;
    m.data_at -= TRANSFER_DETAILS;
    m.digest_at -= TRANSFER_DETAILS;
    return m;
}

/* Feeds in pieces, to the first reply; returns the bytes taken. */
static size_t feed(const struct message *m, size_t piece)
{
    size_t done = 0;

    while (done < m->length && intake.reply_length == 0) {
        size_t length = m->length - done < piece ? m->length - done : piece;

        done += intake_feed(&intake, m->bytes + done, length);
    }
    return done;
}

static void expect_reply(enum transfer_status status)
{
    struct transfer_reply reply;

    ck_assert_uint_ge(intake.reply_length, TRANSFER_REPLY);
    ck_assert(transfer_get_reply(intake.reply, &reply));
    ck_assert_msg(reply.status == status, "status %d, want %d: %s", (int)reply.status, (int)status,
                  intake_text(&intake));
    ck_assert_uint_eq(TRANSFER_REPLY + reply.text_length, intake.reply_length);
    ck_assert_uint_gt(reply.text_length, 0);
    intake.reply_length = 0;
}

static void expect_stored(const char *name, const char *data, size_t size)
{
    char buffer[1024];
    int fd = openat(store.directory, name, O_RDONLY | O_NOFOLLOW);

    ck_assert_msg(fd != -1, "%s is not there", name);
    ck_assert_int_eq(read(fd, buffer, sizeof(buffer)), (ssize_t)size);
    ck_assert_int_eq(memcmp(buffer, data, size), 0);
    close(fd);
}

static void expect_absent(const char *name)
{
    ck_assert_int_eq(faccessat(store.directory, name, F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

/* After a refusal whatever comes is taken, dropped and not answered. */
static void expect_refused(struct message *m, enum transfer_status status)
{
    struct message good = compose("good", 4, "data", 4);

    feed(m, m->length);
    expect_reply(status);
    ck_assert_uint_eq(feed(&good, 7), good.length);
    ck_assert_uint_eq(intake.reply_length, 0);
    expect_absent("good");
}

START_TEST(pieces)
{
    static const char data[] = "what a file may hold, and a little more";
    struct message m = compose("file", 4, data, sizeof(data)), empty = compose("empty", 5, "", 0);

    for (size_t piece = 1; piece <= m.length; piece++) {
        ck_assert_uint_eq(feed(&m, piece), m.length);
        expect_reply(TRANSFER_STORED);
        expect_stored("file", data, sizeof(data));
        ck_assert(intake_idle(&intake));
        ck_assert_uint_eq(feed(&empty, piece), empty.length);
        expect_reply(TRANSFER_STORED);
        expect_stored("empty", "", 0);
    }
}
END_TEST

START_TEST(stops_at_reply)
{
    struct message m = compose("one", 3, "1", 1), two = compose("two", 3, "22", 2);

    memcpy(m.bytes + m.length, two.bytes, two.length);
    size_t first = m.length;
    m.length += two.length;
    ck_assert_uint_eq(intake_feed(&intake, m.bytes, m.length), first);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(intake_feed(&intake, m.bytes + first, two.length), two.length);
    expect_reply(TRANSFER_STORED);
    expect_stored("two", "22", 2);
}
END_TEST

static const struct {
    const char *name;
    size_t length;
} bad_names[] = {{".", 1},     {"..", 2},   {".hidden", 7},      {"../up", 5},   {"a//b", 4},
                 {"/etc", 4},  {"a\0b", 3}, {"line\n", 5},       {"\x1b[2J", 4}, {"\x7f", 1},
                 {"a/", 2},    {"a\tb", 3}, {".exs-0.part", 11}, {"a/..", 4},    {"a/../b", 6},
                 {"a/./b", 5}, {"a/.b", 4}, {".a/b", 4},         {"a/b/", 4},    {"//", 2}};

START_TEST(names)
{
    struct message m = compose(bad_names[_i].name, bad_names[_i].length, "data", 4);

    expect_refused(&m, TRANSFER_REFUSED);
}
END_TEST

/* Byte, value: what a header must not say. */
static const struct {
    size_t at;
    unsigned char value;
} bad_headers[] = {{0, 'X'},   {3, 0},     {4, 1},     {5, 0},     {5, 3},    {6, 4},     {7, 0},
                   {8, 0x80},  {8, 0xff},  {16, 0x10}, {18, 0x80}, {19, 2},   {20, 0xff}, {20, 0x3c},
                   {24, 0x80}, {24, 0x7f}, {24, 0xff}, {26, 1},    {26, 0xfe}};

START_TEST(headers)
{
    struct message m = compose("name", 4, "data", 4);

    m.bytes[bad_headers[_i].at] = bad_headers[_i].value;
    expect_refused(&m, TRANSFER_MALFORMED);
}
END_TEST

START_TEST(damaged)
{
    struct message m = compose("file", 4, "first", 5);

    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    m = compose("file", 4, "wrong", 5);
    m.bytes[(size_t)_i < 5 ? m.data_at + (size_t)_i : m.digest_at + (size_t)_i - 5] ^= 1;
    expect_refused(&m, TRANSFER_DIFFERS);
    expect_stored("file", "first", 5);
}
END_TEST

START_TEST(cut_short)
{
    struct message m = compose("file", 4, "some data", 9);

    m.length = (size_t)_i;
    feed(&m, m.length);
    ck_assert_uint_eq(intake.reply_length, 0);
    expect_absent("file");
    ck_assert_int_eq(intake_idle(&intake), _i == 0);
}
END_TEST

START_TEST(longest_name)
{
    char name[TRANSFER_PATH_MAX + 1];

    memset(name, 'n', sizeof(name));
    struct message m = compose(name, TRANSFER_NAME_MAX, "x", 1);
    ck_assert_uint_eq(feed(&m, 100), m.length);
    expect_reply(TRANSFER_STORED);
    m = as_version_1(m);
    ck_assert_uint_eq(feed(&m, 100), m.length);
    expect_reply(TRANSFER_STORED);
    for (int i = TRANSFER_NAME_MAX; i < TRANSFER_PATH_MAX; i += TRANSFER_NAME_MAX + 1)
        name[i] = '/';
    m = compose(name, TRANSFER_PATH_MAX, "x", 1);
    m.bytes[TRANSFER_HEADER] = 'm'; /* what is there already is no folder */
    feed(&m, 100);
    expect_reply(TRANSFER_STORED);
    m = compose(name, TRANSFER_PATH_MAX + 1, "x", 1);
    expect_refused(&m, TRANSFER_MALFORMED);
}
END_TEST

START_TEST(too_long_name)
{
    char name[TRANSFER_NAME_MAX + 1];

    memset(name, 'n', sizeof(name));
    struct message m = compose(name, sizeof(name), "x", 1);
    if (_i == 1)
        m = as_version_1(m);
    expect_refused(&m, _i == 1 ? TRANSFER_MALFORMED : TRANSFER_REFUSED);
}
END_TEST

/* ---- Details ------------------------------------------------------------------------------------------- */

static struct stat status_of(const char *name)
{
    struct stat status;

    ck_assert_msg(fstatat(store.directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0, "%s is not there", name);
    return status;
}

/* What comes by bits that make others out of who runs it, and what the server's umask takes, is not kept. */
START_TEST(details)
{
    static const struct {
        unsigned sent, mask, kept;
    } rows[] = {{0600, 0022, 0600}, {0755, 0022, 0755}, {0666, 0022, 0644}, {07755, 0022, 0755},
                {0777, 0077, 0700}, {0, 0022, 0},       {06000, 0, 0}};
    const struct transfer_header header = {
        .mode = rows[_i].sent, .seconds = 1234567890 - 400000000 * (int64_t)_i, .nanoseconds = 999999999};
    struct message m = compose_with(&header, "file", 4, "data", 4);

    store.mask = rows[_i].mask;
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    struct stat status = status_of("file");
    ck_assert_uint_eq(status.st_mode, S_IFREG | rows[_i].kept);
    ck_assert_int_eq(status.st_mtim.tv_sec, header.seconds);
    ck_assert_int_eq(status.st_mtim.tv_nsec, header.nanoseconds);
}
END_TEST

/* A client of the first release has no details, nor folders. */
START_TEST(version_1)
{
    struct message m = as_version_1(compose("file", 4, "data", 4)),
                   path = as_version_1(compose("a/b", 3, "x", 1));
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t piece = 1; piece <= m.length; piece++) {
        ck_assert_uint_eq(feed(&m, piece), m.length);
        expect_reply(TRANSFER_STORED);
    }
    expect_stored("file", "data", 4);
    ck_assert_int_ge(status_of("file").st_mtim.tv_sec, now.tv_sec - 1);
    expect_refused(&path, TRANSFER_REFUSED);
}
END_TEST

/* ---- Folders ------------------------------------------------------------------------------------------- */

START_TEST(folders)
{
    struct message deep = compose("a/b/c/file", 10, "deep", 4), beside = compose("a/b/other", 9, "beside", 6);
    struct message cut = compose("x/y", 3, "data", 4), again = compose("a/b/c/file", 10, "again", 5);

    intake_feed(&intake, deep.bytes, deep.length - 1);
    expect_absent("a"); /* until there is a file for it */
    intake_feed(&intake, deep.bytes + deep.length - 1, 1);
    expect_reply(TRANSFER_STORED);
    expect_stored("a/b/c/file", "deep", 4);
    feed(&beside, 1);
    expect_reply(TRANSFER_STORED);
    expect_stored("a/b/other", "beside", 6);
    feed(&again, again.length);
    expect_reply(TRANSFER_STORED);
    expect_stored("a/b/c/file", "again", 5);
    ck_assert_uint_eq(store.files, 3 + 3); /* with their folders */
    cut.bytes[cut.digest_at] ^= 1;
    expect_refused(&cut, TRANSFER_DIFFERS);
    expect_absent("x");
}
END_TEST

/* A link, to a folder or to nowhere, or a file, is where a folder would have to be, from the beginning or
 * since. */
START_TEST(no_folder)
{
    struct message m = compose("a/b/file", 8, "data", 4);
    bool later = _i >= 3;

    ck_assert_int_eq(mkdirat(store.directory, "a", 0700), 0);
    ck_assert_int_eq(mkdirat(store.directory, "outside", 0700), 0);
    if (later)
        intake_feed(&intake, m.bytes, m.data_at);
    if (_i % 3 == 0)
        ck_assert_int_eq(symlinkat("../outside", store.directory, "a/b"), 0);
    else if (_i % 3 == 1)
        ck_assert_int_eq(symlinkat("../nowhere", store.directory, "a/b"), 0);
    else
        close(openat(store.directory, "a/b", O_CREAT | O_WRONLY, 0600));
    if (later) {
        m.length -= m.data_at;
        memmove(m.bytes, m.bytes + m.data_at, m.length);
        feed(&m, m.length);
        expect_reply(TRANSFER_FAILED);
    } else {
        intake_feed(&intake, m.bytes, m.data_at); /* before its data is sent */
        expect_reply(TRANSFER_FAILED);
    }
    expect_absent("outside/file");
    expect_absent("nowhere");
    ck_assert_uint_eq(store.files, 0);
}
END_TEST

START_TEST(too_many_folders)
{
    char name[2 * TRANSFER_FOLDERS_MAX + 3];
    struct message m;

    for (size_t i = 0; i < sizeof(name); i++)
        name[i] = i % 2 == 0 ? 'n' : '/';
    m = compose(name, 2 * TRANSFER_FOLDERS_MAX + 1, "x", 1);
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    m = compose(name, 2 * TRANSFER_FOLDERS_MAX + 3, "x", 1);
    expect_refused(&m, TRANSFER_REFUSED);
}
END_TEST

/* Folders that are made count as files do. */
START_TEST(folders_limit)
{
    struct message m = compose("a/b/c/d", 7, "x", 1);

    store.limits.files = 3;
    feed(&m, m.length);
    ck_assert_msg(strstr(intake_text(&intake), "exs-serve -n") != NULL, "said: %s", intake_text(&intake));
    expect_reply(TRANSFER_FAILED);
    expect_absent("a/b/c");
    ck_assert_uint_eq(store.files, 2); /* a and b are there */
}
END_TEST

START_TEST(targets)
{
    struct message m = compose("folder", 6, "data", 4), link = compose("link", 4, "data", 4);

    ck_assert_int_eq(symlinkat("outside", store.directory, "link"), 0);
    feed(&link, link.length);
    expect_reply(TRANSFER_STORED);
    expect_stored("link", "data", 4);
    expect_absent("outside");
    ck_assert_int_eq(mkdirat(store.directory, "folder", 0700), 0);
    expect_refused(&m, TRANSFER_FAILED);
}
END_TEST

START_TEST(directory)
{
    struct store second;

    ck_assert_int_eq(store_open(&second, folder, &limits), -1);
    ck_assert_int_eq(errno, EBUSY);
    store_close(&store);
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    close(openat(fd, ".exs-12.part", O_CREAT | O_WRONLY, 0600));
    close(openat(fd, ".exs-12.parts", O_CREAT | O_WRONLY, 0600));
    close(fd);
    ck_assert_int_eq(store_open(&store, folder, &limits), 0);
    expect_absent(".exs-12.part");
    expect_stored(".exs-12.parts", "", 0);
    unlinkat(store.directory, ".exs-12.parts", 0);
    ck_assert_int_eq(store_open(&second, "does-not-exist", &limits), -1);
}
END_TEST

/* What is stored is what the digest was made of, whatever becomes of the bytes that came. */
START_TEST(changed_after_hashing)
{
    struct message m = compose("file", 4, "steady", 6);

    still_writable = m.bytes + m.data_at;
    feed(&m, m.length);
    ck_assert_int_eq(m.bytes[m.data_at], 'X');
    expect_reply(TRANSFER_STORED);
    expect_stored("file", "steady", 6);
}
END_TEST

static void expect_untouched(const char *name)
{
    struct message m = compose("file", 4, "data", 4);

    feed(&m, m.length);
    intake.reply_length = 0;
    expect_stored(name, "", 0);
}

/* Somebody else's file has the temporary name. */
START_TEST(temporary_exists)
{
    close(openat(store.directory, ".exs-0.part", O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(linkat(store.directory, ".exs-0.part", store.directory, "mine", 0), 0);
    expect_untouched("mine");
    unlinkat(store.directory, ".exs-0.part", 0);
}
END_TEST

/* A link has it, to a file elsewhere, on a file system that doesn't see that by itself. */
START_TEST(temporary_is_link)
{
    close(openat(store.directory, "mine", O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(symlinkat("mine", store.directory, ".exs-0.part"), 0);
    excl_is_ignored = true;
    expect_untouched("mine");
    unlinkat(store.directory, ".exs-0.part", 0);
}
END_TEST

/* Longer than what is copied at once. */
START_TEST(long_file)
{
    enum { SIZE = 1 << 20, MORE = 77 };
    const struct transfer_header header = {.name_length = 4, .size = SIZE + MORE};
    unsigned char *bytes = malloc(TRANSFER_HEADER + 4 + header.size + TRANSFER_DIGEST), *data;
    XXH3_state_t *state = XXH3_createState();

    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, "long", 4);
    data = bytes + TRANSFER_HEADER + 4;
    for (size_t i = 0; i < header.size; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, data, header.size);
    transfer_digest(state, data + header.size);
    XXH3_freeState(state);
    for (size_t piece = SIZE / 3; piece < 2 * SIZE; piece *= 3) {
        size_t length = TRANSFER_HEADER + 4 + header.size + TRANSFER_DIGEST;

        for (size_t done = 0; done < length;)
            done += intake_feed(&intake, bytes + done, length - done < piece ? length - done : piece);
        expect_reply(TRANSFER_STORED);
        int fd = openat(store.directory, "long", O_RDONLY);
        unsigned char *stored = malloc(header.size);

        ck_assert_int_eq(read(fd, stored, header.size), (ssize_t)header.size);
        ck_assert_int_eq(memcmp(stored, data, header.size), 0);
        free(stored);
        close(fd);
    }
    free(bytes);
}
END_TEST

/* ---- Files that were broken off ------------------------------------------------------------------------ */

static const struct transfer_header asking = {
    .asks = true, .mode = 0640, .seconds = 1000000000, .nanoseconds = 5};

/* Asks as the message does; where the server would go on. */
static uint64_t ask(const struct message *m)
{
    struct transfer_reply reply;
    unsigned char digest[TRANSFER_DIGEST];
    XXH3_state_t *state = XXH3_createState();

    ck_assert_uint_eq(intake_feed(&intake, m->bytes, m->data_at), m->data_at);
    ck_assert_uint_eq(intake.reply_length, TRANSFER_REPLY + TRANSFER_OFFSET);
    ck_assert(transfer_get_reply(intake.reply, &reply));
    ck_assert_int_eq(reply.status, TRANSFER_GO);
    uint64_t there = transfer_get_offset(intake.reply + TRANSFER_REPLY);
    ck_assert_uint_le(there, m->digest_at - m->data_at);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, m->bytes + m->data_at, there);
    transfer_digest(state, digest);
    XXH3_freeState(state);
    ck_assert_int_eq(memcmp(reply.digest, digest, TRANSFER_DIGEST), 0);
    intake.reply_length = 0;
    return there;
}

static void say_offset(uint64_t offset)
{
    unsigned char bytes[TRANSFER_OFFSET];

    transfer_put_offset(bytes, offset);
    ck_assert_uint_eq(intake_feed(&intake, bytes, sizeof(bytes)), sizeof(bytes));
}

static void say_rest(const struct message *m, uint64_t from, size_t cut)
{
    intake_feed(&intake, m->bytes + m->data_at + from, m->length - m->data_at - from - cut);
}

static void hang_up(void)
{
    intake_close(&intake);
    ck_assert_int_eq(intake_open(&intake, &store), 0);
}

/* So many bytes of the message's data come, and no more. */
static void break_off(const struct message *m, size_t bytes)
{
    store.limits.keep = 10;
    ask(m);
    say_offset(0);
    intake_feed(&intake, m->bytes + m->data_at, bytes);
    hang_up();
}

START_TEST(go_on)
{
    struct message m = compose_with(&asking, "a/file", 6, "0123456789", 10);

    break_off(&m, (size_t)_i);
    ck_assert_uint_eq(store.bytes, _i);
    ck_assert_uint_eq(ask(&m), _i);
    say_offset((uint64_t)_i);
    say_rest(&m, (uint64_t)_i, 0);
    expect_reply(TRANSFER_STORED);
    expect_stored("a/file", "0123456789", 10);
    ck_assert_uint_eq(status_of("a/file").st_mode, S_IFREG | (0640 & ~store.mask));
    ck_assert_uint_eq(store.bytes, 10);
    ck_assert_uint_eq(store.files, 2);
    ck_assert_int_eq(store.kept_count, 0);
}
END_TEST

/* The client's file has changed since. */
START_TEST(go_on_from_0)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10);
    struct message other = compose_with(&asking, "file", 4, "abcdefghij", 10);

    break_off(&m, 7);
    ck_assert_uint_eq(ask(&m), 7);
    say_offset(0);
    say_rest(&other, 0, 0);
    expect_reply(TRANSFER_STORED);
    expect_stored("file", "abcdefghij", 10);
    ck_assert_uint_eq(store.bytes, 10);
}
END_TEST

START_TEST(go_on_elsewhere)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10);
    static const uint64_t places[] = {1, 6, 8, 10, 11, UINT64_MAX};

    break_off(&m, 7);
    ck_assert_uint_eq(ask(&m), 7);
    say_offset(places[_i]);
    expect_reply(TRANSFER_MALFORMED);
    ck_assert_uint_eq(store.bytes, 0);
}
END_TEST

/* Of another size or time it is another file; and two don't get the same. */
START_TEST(another_file)
{
    struct transfer_header later = asking;
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10), same = m;

    break_off(&m, 7);
    later.nanoseconds++;
    m = compose_with(&later, "file", 4, "0123456789", 10);
    ck_assert_uint_eq(ask(&m), 0);
    hang_up();
    m = compose_with(&asking, "file", 4, "01234567890", 11);
    ck_assert_uint_eq(ask(&m), 0);
    hang_up();
    m = compose_with(&asking, "fila", 4, "0123456789", 10);
    ck_assert_uint_eq(ask(&m), 0);
    hang_up();
    ck_assert_uint_eq(ask(&same), 7);
    ck_assert_int_eq(store.kept_count, 0);
    hang_up(); /* at once, and it is kept again */
    ck_assert_uint_eq(ask(&same), 7);
}
END_TEST

/* What was sent wrong is not kept, nor what nobody asked for, nor for longer than it may be. */
START_TEST(not_kept)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10),
                   plain = compose("plain", 5, "data", 4);

    store.limits.keep = 10;
    m.bytes[m.digest_at] ^= 1;
    ask(&m);
    say_offset(0);
    say_rest(&m, 0, 0);
    expect_reply(TRANSFER_DIFFERS);
    hang_up();
    intake_feed(&intake, plain.bytes, plain.length - 1);
    hang_up();
    ck_assert_int_eq(store.kept_count, 0);
    break_off(&m, 7);
    for (int seconds = 0; seconds < 10; seconds++)
        kept_second(&store);
    ck_assert_int_eq(store.kept_count, 1);
    kept_second(&store);
    ck_assert_int_eq(store.kept_count, 0);
    ck_assert_uint_eq(store.bytes, 0);
    store.limits.keep = 0;
    ask(&m);
    say_offset(0);
    say_rest(&m, 0, TRANSFER_DIGEST + 1);
    hang_up();
    ck_assert_int_eq(store.kept_count, 0);
}
END_TEST

/* Being too slow is no reason to lose it. */
START_TEST(turned_out)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10);

    store.limits.keep = 10;
    ask(&m);
    say_offset(0);
    intake_feed(&intake, m.bytes + m.data_at, 6);
    intake_refuse(&intake, "too slow");
    expect_reply(TRANSFER_REFUSED);
    hang_up();
    ck_assert_uint_eq(ask(&m), 6);
}
END_TEST

/* What is kept takes nothing from others: of bytes, of files, of descriptors. */
START_TEST(kept_gives_way)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10),
                   other = compose("other", 5, "12345", 5);
    char name[16];

    store.limits.total = 10;
    break_off(&m, 7);
    feed(&other, other.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(store.bytes, 5);
    store.limits.total = 1000;
    store.limits.files = 2;
    break_off(&m, 7);
    feed(&other, other.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(store.files, 2);
    store.limits.files = 1000;
    for (int i = 0; i < KEPT_MAX + 2; i++) {
        int length = snprintf(name, sizeof(name), "file-%d", i);

        m = compose_with(&asking, name, (size_t)length, "0123456789", 10);
        break_off(&m, 1);
    }
    ck_assert_int_eq(store.kept_count, KEPT_MAX);
    ck_assert_uint_eq(store.bytes, 10 + KEPT_MAX);
}
END_TEST

/* What is there of it counts once. */
START_TEST(go_on_within_limits)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10);

    store.limits.total = 10;
    store.limits.files = 1;
    break_off(&m, 7);
    ck_assert_uint_eq(ask(&m), 7);
    say_offset(7);
    say_rest(&m, 7, 0);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(store.bytes, 10);
}
END_TEST

static void expect_text(const char *part)
{
    ck_assert_msg(strstr(intake_text(&intake), part) != NULL, "said: %s", intake_text(&intake));
}

/* Refused by its header alone, as nobody need send what will not be taken. */
START_TEST(file_limit)
{
    struct message m = compose("most", 4, "12345", 5), more = compose("more", 4, "123456", 6);

    store.limits.file = 5;
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(intake_feed(&intake, more.bytes, TRANSFER_HEADER), TRANSFER_HEADER);
    expect_text("a file may have 5 bytes");
    expect_refused(&more, TRANSFER_REFUSED);
    expect_absent("more");
}
END_TEST

START_TEST(total_limit)
{
    struct message m = compose("one", 3, "12345", 5), cut = compose("cut", 3, "123", 3);
    struct message more = compose("more", 4, "1234", 4);

    store.limits.total = 8;
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    cut.bytes[cut.digest_at] ^= 1; /* what is not stored is not counted */
    feed(&cut, cut.length);
    expect_reply(TRANSFER_DIFFERS);
    ck_assert_uint_eq(store.bytes, 5);
    intake_close(&intake);
    intake_open(&intake, &store);
    feed(&more, more.length);
    expect_text("3 bytes are left");
    expect_refused(&more, TRANSFER_REFUSED);
    ck_assert_uint_eq(store.bytes, 5);
    ck_assert_uint_eq(store.files, 1);
}
END_TEST

/* Two that fit one by one: the second to write what is left is refused in the middle, the first is stored. */
START_TEST(total_limit_meanwhile)
{
    struct message m = compose("one", 3, "12345", 5), other = compose("two", 3, "123456", 6);
    struct intake second;

    store.limits.total = 8;
    ck_assert_int_eq(intake_open(&second, &store), 0);
    ck_assert_uint_eq(intake_feed(&second, other.bytes, other.data_at + 2), other.data_at + 2);
    ck_assert_uint_eq(intake_feed(&intake, m.bytes, m.length - 1), m.length - 1);
    ck_assert_uint_gt(intake_feed(&second, other.bytes + other.data_at + 2, 4), 0);
    ck_assert_msg(strstr(intake_text(&second), "bytes are left") != NULL, "%s", intake_text(&second));
    ck_assert_int_eq(second.state, INTAKE_REFUSED);
    intake_close(&second);
    intake_feed(&intake, m.bytes + m.length - 1, 1);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(store.bytes, 5);
    expect_absent("two");
}
END_TEST

START_TEST(count_limit)
{
    struct message m = compose("one", 3, "1", 1), more = compose("more", 4, "2", 1);
    struct intake second;

    store.limits.files = 1;
    ck_assert_int_eq(intake_open(&second, &store), 0);
    intake_feed(&second, more.bytes, TRANSFER_HEADER);
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    intake_feed(&second, more.bytes + TRANSFER_HEADER, more.length - TRANSFER_HEADER);
    ck_assert_int_eq(second.result.status, TRANSFER_REFUSED);
    intake_close(&second);
    feed(&more, more.length);
    expect_text("taken 1 files");
    expect_refused(&more, TRANSFER_REFUSED);
    expect_absent("more");
}
END_TEST

/* Half of what is free, unless told. */
START_TEST(limits_by_default)
{
    const struct store_limits none = {.files = 1};
    struct statvfs status;
    uint64_t half;

    ck_assert_int_eq(fstatvfs(store.directory, &status), 0);
    half = (uint64_t)status.f_bavail * status.f_frsize / 2;
    store_close(&store);
    ck_assert_int_eq(store_open(&store, folder, &none), 0);
    ck_assert_uint_ge(store.limits.total, half / 2);
    ck_assert_uint_le(store.limits.total, half * 2);
    ck_assert_uint_eq(store.limits.file, store.limits.total);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("intake");
    TCase *tcase = tcase_create("conversations");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, pieces);
    tcase_add_test(tcase, stops_at_reply);
    tcase_add_loop_test(tcase, names, 0, (int)(sizeof(bad_names) / sizeof(bad_names[0])));
    tcase_add_loop_test(tcase, headers, 0, (int)(sizeof(bad_headers) / sizeof(bad_headers[0])));
    tcase_add_loop_test(tcase, damaged, 0, 5 + TRANSFER_DIGEST);
    tcase_add_loop_test(tcase, cut_short, 0, TRANSFER_HEADER + 4 + 9 + TRANSFER_DIGEST);
    tcase_add_test(tcase, longest_name);
    tcase_add_loop_test(tcase, too_long_name, 0, 2);
    tcase_add_loop_test(tcase, details, 0, 7);
    tcase_add_test(tcase, version_1);
    tcase_add_test(tcase, folders);
    tcase_add_loop_test(tcase, no_folder, 0, 6);
    tcase_add_test(tcase, too_many_folders);
    tcase_add_test(tcase, folders_limit);
    tcase_add_loop_test(tcase, go_on, 0, 11);
    tcase_add_test(tcase, go_on_from_0);
    tcase_add_loop_test(tcase, go_on_elsewhere, 0, 6);
    tcase_add_test(tcase, another_file);
    tcase_add_test(tcase, not_kept);
    tcase_add_test(tcase, turned_out);
    tcase_add_test(tcase, kept_gives_way);
    tcase_add_test(tcase, go_on_within_limits);
    tcase_add_test(tcase, targets);
    tcase_add_test(tcase, directory);
    tcase_add_test(tcase, file_limit);
    tcase_add_test(tcase, total_limit);
    tcase_add_test(tcase, total_limit_meanwhile);
    tcase_add_test(tcase, count_limit);
    tcase_add_test(tcase, limits_by_default);
    tcase_add_test(tcase, changed_after_hashing);
    tcase_add_test(tcase, temporary_exists);
    tcase_add_test(tcase, temporary_is_link);
    tcase_add_test(tcase, long_file);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
