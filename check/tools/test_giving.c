/* SPDX-License-Identifier: BSD-2-Clause */
/* test_giving.c - tools/files/giving.h without a network: files, resumed files and lists that exs-serve sends, and
 * requests that it refuses. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conversation.h"

static unsigned char given[8 << 20]; /* the bytes that the client receives */
static size_t given_length;
static unsigned given_vectors;

/* ---- The server's files --------------------------------------------------------------------------------- */

static void allow(void)
{
    store.limits.gives = true;
}

static void make_file(const char *name, const void *bytes, size_t length)
{
    int fd = openat(store.directory, name, O_WRONLY | O_CREAT | O_TRUNC, 0640);

    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    close(fd);
}

static unsigned char *noise(size_t length)
{
    static unsigned char bytes[4 << 20];
    unsigned state = 1;

    ck_assert_uint_le(length, sizeof(bytes));
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)((state = state * 1103515245 + 12345) >> 16);
    return bytes;
}

static void digest_of(const void *bytes, size_t length, unsigned char digest[TRANSFER_DIGEST])
{
    XXH3_state_t *state = XXH3_createState();

    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, bytes, length);
    transfer_digest(state, digest);
    XXH3_freeState(state);
}

/* ---- Requests and answers ------------------------------------------------------------------------------- */

/* Requests a file. bytes, there: data that the client claims to have, and their length in bytes. */
static void want_more(const char *name, size_t name_length, const void *bytes, size_t there)
{
    struct transfer_header header = {.version = TRANSFER_WANTS, .name_length = name_length, .size = there};
    unsigned char message[TRANSFER_HEADER + TRANSFER_PATH_MAX + 1];

    digest_of(bytes, there, header.digest);
    transfer_put_header(message, &header);
    memcpy(message + TRANSFER_HEADER, name, name_length);
    ck_assert_uint_eq(intake_feed(&intake, message, TRANSFER_HEADER + name_length),
                      TRANSFER_HEADER + name_length);
}

static void want(const char *name)
{
    want_more(name, strlen(name), "", 0);
}

static void append(const exs_xferfile_t *part)
{
    size_t length;

    if (part->exs_xfv_type == EXS_IOVEC) {
        length = part->exs_xfv.exs_iov.exs_length;
        ck_assert_uint_le(length, sizeof(given) - given_length);
        memcpy(given + given_length, part->exs_xfv.exs_iov.exs_base, length);
    } else {
        const exs_fdvec_t *fdv = &part->exs_xfv.exs_fdv;

        ck_assert_int_eq(part->exs_xfv_type, EXS_FDVEC);
        length = fdv->exs_length;
        ck_assert_uint_le(length, GIVING_PIECE);
        ck_assert_int_eq(pread(fdv->exs_fildes, given + given_length, length, fdv->exs_offset),
                         (ssize_t)length);
    }
    given_length += length;
}

/* Receives the answer to its end. */
static void take(void)
{
    struct giving *giving = intake.giving;
    exs_xferfile_t vector[GIVING_PARTS];

    ck_assert_ptr_nonnull(giving);
    given_length = given_vectors = 0;
    while (giving_reads(giving))
        ck_assert_int_eq(giving_read(giving), 0);
    for (int count; (count = giving_next(giving, vector)) != 0; given_vectors++) {
        ck_assert_int_gt(count, 0);
        for (int i = 0; i < count; i++)
            append(&vector[i]);
    }
    ck_assert(giving->over);
    giving_close(giving);
    intake.giving = NULL;
}

static const unsigned char *expect_answer(enum transfer_status status)
{
    struct transfer_reply reply;

    ck_assert(transfer_get_reply(given, &reply));
    ck_assert_int_eq(reply.status, status);
    return given + TRANSFER_REPLY;
}

static void expect_file(const void *bytes, size_t length, uint64_t want_from)
{
    const unsigned char *at = expect_answer(TRANSFER_COMES);
    unsigned char digest[TRANSFER_DIGEST];
    struct transfer_header header;
    uint64_t from;

    ck_assert_ptr_null(transfer_get_coming(at, &header, &from));
    ck_assert_uint_eq(header.size, length);
    ck_assert_uint_eq(from, want_from);
    ck_assert_uint_eq(given_length, TRANSFER_REPLY + TRANSFER_COMING + length - from + TRANSFER_DIGEST);
    at += TRANSFER_COMING;
    ck_assert_int_eq(memcmp(at, (const char *)bytes + from, length - from), 0);
    digest_of(bytes, length, digest);
    ck_assert_int_eq(memcmp(at + length - from, digest, TRANSFER_DIGEST), 0);
}

static void expect_nothing(enum transfer_status status, const char *why)
{
    ck_assert_ptr_null(intake.giving);
    ck_assert_ptr_nonnull(strstr(intake_text(&intake), why));
    expect_reply(status);
    ck_assert_int_eq(intake.state, INTAKE_REFUSED);
}

/* Returns the entry at *at in a list, and moves *at to the next entry. */
static struct transfer_entry next_entry(const unsigned char **at, char name[TRANSFER_NAME_MAX + 1])
{
    struct transfer_entry entry;

    ck_assert(transfer_get_entry(*at, &entry));
    memcpy(name, *at + TRANSFER_ENTRY, entry.name_length);
    name[entry.name_length] = '\0';
    *at += TRANSFER_ENTRY + entry.name_length;
    ck_assert_uint_le((size_t)(*at - given), given_length);
    return entry;
}

/* ---- Files ---------------------------------------------------------------------------------------------- */

START_TEST(files)
{
    static const size_t lengths[] = {0, 1, GIVING_PIECE, GIVING_PIECE + 1, 3 * GIVING_PIECE};
    unsigned char *bytes = noise(lengths[_i]);

    allow();
    mkdirat(store.directory, "sub", 0700);
    make_file("sub/file", bytes, lengths[_i]);
    for (int round = 0; round < 2; round++) { /* a client may request several files, one after the other */
        want("sub/file");
        take();
        expect_file(bytes, lengths[_i], 0);
        ck_assert(intake_idle(&intake));
    }
}
END_TEST

START_TEST(details)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 981173106, .tv_nsec = 789}};
    struct transfer_header header;
    uint64_t from;

    allow();
    make_file("file", "data", 4);
    ck_assert_int_eq(fchmodat(store.directory, "file", 04754, 0), 0);
    ck_assert_int_eq(utimensat(store.directory, "file", times, 0), 0);
    want("file");
    take();
    ck_assert_ptr_null(transfer_get_coming(expect_answer(TRANSFER_COMES), &header, &from));
    ck_assert_uint_eq(header.mode, 0754);
    ck_assert_int_eq(header.seconds, 981173106);
    ck_assert_uint_eq(header.nanoseconds, 789);
}
END_TEST

/* The client's bytes are the beginning of the file, or differ from it. */
START_TEST(resumed)
{
    enum { LENGTH = 2 * GIVING_PIECE + 5 };
    static const struct {
        size_t there, differs; /* differs: offset of the differing byte; if not below `there`, none differs */
        uint64_t from;
    } rows[] = {{1, LENGTH, 1},
                {GIVING_PIECE + 3, LENGTH, GIVING_PIECE + 3},
                {LENGTH, LENGTH, LENGTH},
                {LENGTH + 1, LENGTH + 1, 0},
                {GIVING_PIECE + 3, 0, 0},
                {LENGTH, LENGTH - 1, 0},
                {1, 0, 0}};
    unsigned char *bytes = noise(LENGTH + 1);

    allow();
    make_file("file", bytes, LENGTH);
    if (rows[_i].differs < rows[_i].there)
        bytes[rows[_i].differs] ^= 1;
    want_more("file", 4, bytes, rows[_i].there);
    if (rows[_i].differs < rows[_i].there)
        bytes[rows[_i].differs] ^= 1;
    take();
    expect_file(bytes, LENGTH, rows[_i].from);
}
END_TEST

/* If the file becomes shorter during the transfer, the client does not get a digest. */
START_TEST(shorter)
{
    exs_xferfile_t vector[GIVING_PARTS];

    allow();
    make_file("file", noise(2 * GIVING_PIECE), 2 * GIVING_PIECE);
    want_more("file", 4, noise(GIVING_PIECE), _i == 0 ? 0 : GIVING_PIECE);
    make_file("file", "data", 4);
    if (_i == 0)
        ck_assert_int_eq(giving_next(intake.giving, vector), -1);
    else
        ck_assert_int_eq(giving_read(intake.giving), -1);
    ck_assert_int_eq(errno, EIO);
}
END_TEST

/* ---- Refusals -------------------------------------------------------------------------------------------- */

START_TEST(not_told_to)
{
    make_file("file", "data", 4);
    want(_i == 0 ? "file" : "/");
    expect_nothing(TRANSFER_REFUSED, "this server gives no files (exs-serve -g)");
}
END_TEST

static const struct {
    const char *name;
    size_t length;
    const char *why;
} bad_names[] = {{"..", 2, "dot"},
                 {"../up", 5, "dot"},
                 {"../", 3, "dot"},
                 {"./", 2, "dot"},
                 {".recv_ring", 7, "dot"},
                 {".exs-0.part", 11, "dot"},
                 {"sub/../../up", 12, "dot"},
                 {"sub/.recv_ring", 11, "dot"},
                 {"/etc/passwd", 11, "1 to 255"},
                 {"//", 2, "1 to 255"},
                 {"sub//", 5, "1 to 255"},
                 {"a\0b", 3, "control"},
                 {"a\nb/", 4, "control"},
                 {"link", 4, "no such file"},
                 {"link/", 5, "no such file"},
                 {"away/passwd", 11, "no such file"},
                 {"away/", 5, "no such file"},
                 {"pipe", 4, "no such file"},
                 {"pipe/", 5, "no such file"},
                 {"nothing", 7, "no such file"},
                 {"nothing/", 8, "no such file"},
                 {"sub/nothing", 11, "no such file"},
                 {"file/", 5, ""}, /* the list of a file is the file itself */
                 {"file/more", 9, "no such file"},
                 {"sub", 3, "it is a folder"}};

START_TEST(names)
{
    const char *why = bad_names[_i].why;

    allow();
    make_file("file", "data", 4);
    make_file(".recv_ring", "data", 4);
    mkdirat(store.directory, "sub", 0700);
    make_file("sub/.recv_ring", "data", 4);
    symlinkat("file", store.directory, "link");
    symlinkat("/etc", store.directory, "away");
    mkfifoat(store.directory, "pipe", 0600);
    want_more(bad_names[_i].name, bad_names[_i].length, "", 0);
    if (why[0] == '\0')
        take();
    else
        expect_nothing(TRANSFER_REFUSED, why);
}
END_TEST

/* A request that fails because the server is short of descriptors is reported as a failure of the server. */
START_TEST(no_descriptors)
{
    const struct rlimit few = {.rlim_cur = 64, .rlim_max = 64};
    int fds[64], count = 0;

    allow();
    make_file("file", "data", 4);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (count < 64 && (fds[count] = dup(store.directory)) != -1)
        count++;
    ck_assert_int_lt(count, 64);
    for (int i = 0; i < _i; i++)
        close(fds[--count]);
    want(_i < 2 ? "file" : "/");
    if (_i < 2)
        expect_nothing(TRANSFER_FAILED, "Too many open files");
    else
        take();
    while (count > 0)
        close(fds[--count]);
}
END_TEST

/* ---- Lists ---------------------------------------------------------------------------------------------- */

START_TEST(lists)
{
    char name[TRANSFER_NAME_MAX + 1], said[256] = "";
    struct transfer_entry entry;

    allow();
    mkdirat(store.directory, "sub", 0700);
    mkdirat(store.directory, "sub/inner", 0700);
    make_file("sub/file", "data", 4);
    make_file("sub/.recv_ring", "data", 4);
    make_file("sub/control\t", "data", 4);
    symlinkat("file", store.directory, "sub/link");
    mkfifoat(store.directory, "sub/pipe", 0600);
    make_file(".exs-7.part", "data", 4);
    want(_i == 0 ? "/" : "sub/");
    take();
    ck_assert_uint_eq(given_vectors, 1);
    const unsigned char *at = expect_answer(TRANSFER_LISTS);

    while ((entry = next_entry(&at, name)).kind != TRANSFER_NO_MORE) {
        if (strcmp(name, "file") == 0)
            ck_assert_uint_eq(entry.size, 4);
        size_t end = strlen(said);

        snprintf(said + end, sizeof(said) - end, "%s %.20s", entry.kind == TRANSFER_FOLDER ? "folder" : "file",
                 name);
    }
    ck_assert_uint_eq((size_t)(at - given), given_length);
    if (_i == 0)
        ck_assert_str_eq(said, "folder sub");
    else
        ck_assert(strcmp(said, "folder innerfile file") == 0 || strcmp(said, "file filefolder inner") == 0);
    unlinkat(store.directory, ".exs-7.part", 0);
}
END_TEST

START_TEST(file_is_its_list)
{
    char name[TRANSFER_NAME_MAX + 1];

    allow();
    make_file("file", "data", 4);
    want("file/");
    take();
    const unsigned char *at = expect_answer(TRANSFER_LISTS);
    struct transfer_entry entry = next_entry(&at, name);

    ck_assert_int_eq(entry.kind, TRANSFER_FILE);
    ck_assert_uint_eq(entry.name_length, 0);
    ck_assert_uint_eq(entry.size, 4);
    ck_assert_int_eq(next_entry(&at, name).kind, TRANSFER_NO_MORE);
}
END_TEST

/* A list that does not fit into one vector, with names of the maximum length. */
START_TEST(long_list)
{
    enum { MANY = 700 };
    char name[TRANSFER_NAME_MAX + 1];
    bool seen[MANY] = {false};

    allow();
    for (int i = 0; i < MANY; i++) {
        memset(name, 'n', sizeof(name));
        snprintf(name + sizeof(name) - 5, 5, "%04d", i);
        make_file(name, "", 0);
    }
    want("/");
    take();
    ck_assert_uint_gt(given_vectors, GIVING_FLYING + 1);
    const unsigned char *at = expect_answer(TRANSFER_LISTS);

    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(next_entry(&at, name).kind, TRANSFER_FILE);
        long which = strtol(name + sizeof(name) - 5, NULL, 10);

        ck_assert_int_ge(which, 0);
        ck_assert_int_lt(which, MANY);
        ck_assert(!seen[which]);
        seen[which] = true;
    }
    ck_assert_int_eq(next_entry(&at, name).kind, TRANSFER_NO_MORE);
    ck_assert_uint_eq((size_t)(at - given), given_length);
}
END_TEST

int main(void)
{
    TCase *tcase = conversations("giving");

    tcase_add_loop_test(tcase, files, 0, 5);
    tcase_add_test(tcase, details);
    tcase_add_loop_test(tcase, resumed, 0, 7);
    tcase_add_loop_test(tcase, shorter, 0, 2);
    tcase_add_loop_test(tcase, not_told_to, 0, 2);
    tcase_add_loop_test(tcase, names, 0, (int)(sizeof(bad_names) / sizeof(bad_names[0])));
    tcase_add_loop_test(tcase, no_descriptors, 0, 3);
    tcase_add_loop_test(tcase, lists, 0, 2);
    tcase_add_test(tcase, file_is_its_list);
    tcase_add_test(tcase, long_list);
    return conversations_run();
}
