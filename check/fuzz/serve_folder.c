/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve_folder.c - checks for every input that nothing outside the folder changes, that a file gets its name only with
 * a reply that reports that and with the bytes that were sent, and that only regular files in the folder are given. See
 * serve.h.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/support/fake_exs.h"
#include "serve.h"
#include "tools/files/giving.h"

/* Opens folders that the server accepts, with a leftover temporary file in it, and some that it does not. */
static void try_folders(const char *path)
{
    const struct store_limits limits = {.files = 1};
    char leftover[128];
    struct store store;

    snprintf(leftover, sizeof(leftover), "%s/.exs-9.part", path);
    close(open(leftover, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ck_assert_int_eq(store_open(&store, path, &limits), 0);
    ck_assert_int_eq(access(leftover, F_OK), -1);
    ck_assert_int_eq(store_open(&world.inlets.store, path, &limits), -1);
    store_close(&store);
    ck_assert_int_eq(store_open(&store, leftover, &limits), -1);
}

void open_folder(void)
{
    const struct store_limits limits = {
        .file = FILE_MAX, .total = TOTAL_MAX, .files = FILES_MAX, .keep = 2 * PATIENCE};
    const char *parent = getenv("TMPDIR");
    char path[96];

    snprintf(world.top, sizeof(world.top), "%s/exs-fuzz-serve.XXXXXX", parent == NULL ? "/tmp" : parent);
    ck_assert_ptr_nonnull(mkdtemp(world.top));
    snprintf(path, sizeof(path), "%s/in", world.top);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    try_folders(path);
    ck_assert_int_eq(store_open(&world.inlets.store, path, &limits), 0);
    snprintf(path, sizeof(path), "%s/beside", world.top);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, "beside", 6), 6);
    ck_assert_int_eq(fstat(fd, &world.beside), 0);
    close(fd);
}

void close_folder(void)
{
    char path[96];

    snprintf(path, sizeof(path), "%s/in", world.top);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/beside", world.top);
    unlink(path);
    rmdir(world.top);
}

/* The file beside the folder is as it was, and there is no other. */
void expect_untouched(void)
{
    char path[96];
    struct stat status;
    struct dirent *entry;
    int entries = 0;

    DIR *stream = opendir(world.top);
    while ((entry = readdir(stream)) != NULL)
        entries++;
    closedir(stream);
    ck_assert_int_eq(entries, 4); /* . and .. included */
    snprintf(path, sizeof(path), "%s/beside", world.top);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 6);
}

static void see_reply(const struct transfer_reply *reply)
{
    if (reply->status != TRANSFER_STORED)
        return;
    ck_assert_uint_lt(world.digests, FILES_MAX);
    memcpy(world.digest[world.digests++], reply->digest, TRANSFER_DIGEST);
}

/* The number of bytes of a small file that follow its reply. */
static size_t data_behind(const struct transfer_reply *reply, const unsigned char *text)
{
    struct transfer_header header;
    uint64_t from;

    if (reply->status != TRANSFER_COMES)
        return 0;
    ck_assert_ptr_null(transfer_get_coming(text, &header, &from));
    return (size_t)(header.size - from) + TRANSFER_DIGEST;
}

/* Replies and small files that were sent in one call. */
static void see_sent(const unsigned char *bytes, size_t length)
{
    struct transfer_reply reply;

    for (size_t at = 0; at < length;) {
        ck_assert_uint_ge(length - at, TRANSFER_REPLY);
        ck_assert(transfer_get_reply(bytes + at, &reply));
        see_reply(&reply);
        at += TRANSFER_REPLY + reply.text_length + data_behind(&reply, bytes + at + TRANSFER_REPLY);
        ck_assert_uint_le(at, length);
    }
}

/* Collects the digests of new replies. */
void see_replies(void)
{
    struct fake_call *call;

    STAILQ_FOREACH (call, &fake_calls, entry) {
        if (call->type != EXS_EVT_SEND || call->length < TRANSFER_REPLY || call->seen)
            continue;
        call->seen = true;
        see_sent(call->sent, call->length);
    }
}

/* It is no file that is still arriving. */
static void expect_has_name(const struct stat *given)
{
    struct stat status;
    char name[32];

    for (unsigned number = 0; number < world.inlets.store.next; number++) {
        snprintf(name, sizeof(name), ".exs-%u.part", number);
        ck_assert(fstatat(world.inlets.store.directory, name, &status, AT_SYMLINK_NOFOLLOW) == -1 ||
                  status.st_ino != given->st_ino);
    }
}

/* Checks a part of what the server gives. */
static void expect_given(const exs_xferfile_t *part)
{
    const exs_fdvec_t *fdv = &part->exs_xfv.exs_fdv;
    struct stat status;

    if (part->exs_xfv_type == EXS_IOVEC) {
        ck_assert_uint_le(part->exs_xfv.exs_iov.exs_length, GIVING_LIST);
        return;
    }
    ck_assert_int_eq(part->exs_xfv_type, EXS_FDVEC);
    ck_assert_int_eq(fstat(fdv->exs_fildes, &status), 0);
    ck_assert(S_ISREG(status.st_mode) && status.st_nlink <= 1);
    ck_assert(status.st_ino != world.beside.st_ino || status.st_dev != world.beside.st_dev);
    ck_assert_uint_gt(fdv->exs_length, 0);
    ck_assert_uint_le((uint64_t)fdv->exs_offset + fdv->exs_length, (uint64_t)status.st_size);
    expect_has_name(&status);
}

void see_given(void)
{
    struct fake_call *call;

    STAILQ_FOREACH (call, &fake_calls, entry) {
        if (call->type != EXS_EVT_SENDFILE || call->seen)
            continue;
        call->seen = true;
        for (int i = 0; i < call->vector_count; i++)
            expect_given(&call->vector[i]);
    }
}

/* The file's digest is one that a reply has reported as stored. */
static void expect_agreed(int directory, const char *name)
{
    unsigned char bytes[FILE_MAX + 1], digest[TRANSFER_DIGEST];
    XXH3_state_t *state = XXH3_createState();
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t length = read(fd, bytes, sizeof(bytes));
    bool found = world.failed;

    ck_assert_int_le(length, FILE_MAX);
    close(fd);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, bytes, (size_t)length);
    transfer_digest(state, digest);
    XXH3_freeState(state);
    for (unsigned i = 0; i < world.digests; i++)
        found |= memcmp(world.digest[i], digest, TRANSFER_DIGEST) == 0;
    ck_assert_msg(found, "'%s' has something that nobody was told of", name);
}

/* The contents of a folder and its subfolders. */
struct held {
    unsigned entries; /* files and subfolders */
    uint64_t bytes;
};

/* Checks that each name is allowed, and removes everything. Closes the descriptor. */
static void empty_folder(int directory, struct held *held)
{
    DIR *stream = fdopendir(directory);
    struct dirent *entry;
    struct stat status;

    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ck_assert_int_eq(fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW), 0);
        if (!S_ISLNK(status.st_mode)) { /* the harness has made the links */
            ck_assert_ptr_null(transfer_check_name(entry->d_name, strlen(entry->d_name), true));
            ck_assert_uint_eq(status.st_mode & 07000, 0);
            held->entries++;
        }
        if (S_ISREG(status.st_mode)) {
            fchmodat(directory, entry->d_name, 0600, 0);
            expect_agreed(directory, entry->d_name);
            held->bytes += (uint64_t)status.st_size;
        } else if (S_ISDIR(status.st_mode)) {
            empty_folder(openat(directory, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                         held);
        }
        unlinkat(directory, entry->d_name, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
    }
    closedir(stream);
}

void expect_within_limits(void)
{
    struct held held = {0};

    leftovers_unmark(world.inlets.store.directory);
    /* The harness may have made it; fails if a client's file is in it. */
    unlinkat(world.inlets.store.directory, "folder", AT_REMOVEDIR);
    empty_folder(openat(world.inlets.store.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &held);
    /* The server also counts files that were replaced since; it does not count the harness's own folder. */
    ck_assert_uint_le(held.entries, world.inlets.store.files + 1);
    ck_assert_uint_le(held.bytes, world.inlets.store.bytes);
}
