/* SPDX-License-Identifier: BSD-2-Clause */
/* conversation.c - passes a client's bytes to an intake, and checks replies and files. See conversation.h. */
#include "conversation.h"
#include "check/support/runner.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char folder[] = "intake-XXXXXX";
const struct store_limits limits = {.file = 2 << 20, .total = 8 << 20, .files = 1000};
struct store store;
struct intake intake;
struct sockaddr_storage client;

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(store_open(&store, folder, &limits), 0);
    ck_assert_int_eq(intake_open(&intake, &store, &client), 0);
}

/* Removes a folder recursively, relative to descriptors, because paths may be longer than PATH_MAX. */
static void remove_folder(int in, const char *name)
{
    int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *stream = fdopendir(fd);
    struct dirent *entry;

    ck_assert_ptr_nonnull(stream);
    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ck_assert_msg(strstr(entry->d_name, ".part") == NULL, "a temporary file is left: %s", entry->d_name);
        if (entry->d_type == DT_DIR)
            remove_folder(fd, entry->d_name);
        else
            unlinkat(fd, entry->d_name, 0);
    }
    closedir(stream);
    unlinkat(in, name, AT_REMOVEDIR);
}

static void teardown(void)
{
    intake_close(&intake);
    store_close(&store);
    remove_folder(AT_FDCWD, folder);
}

struct message compose_with(const struct transfer_header *details, const char *name, size_t name_length,
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

struct message compose(const char *name, size_t name_length, const char *data, size_t size)
{
    const struct transfer_header plain = {.mode = 0644, .seconds = 1000000000};

    return compose_with(&plain, name, name_length, data, size);
}

struct message as_version_1(struct message m)
{
    m.bytes[5] = 1;
    memmove(m.bytes + TRANSFER_HEAD, m.bytes + TRANSFER_HEADER, m.length - TRANSFER_HEADER);
    m.length -= TRANSFER_DETAILS;
    m.data_at -= TRANSFER_DETAILS;
    m.digest_at -= TRANSFER_DETAILS;
    return m;
}

size_t feed(const struct message *m, size_t piece)
{
    size_t done = 0;

    while (done < m->length && intake.reply_length == 0) {
        size_t length = m->length - done < piece ? m->length - done : piece;

        done += intake_feed(&intake, m->bytes + done, length);
    }
    return done;
}

void expect_reply(enum transfer_status status)
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

void expect_stored(const char *name, const char *data, size_t size)
{
    char buffer[1024];
    int fd = openat(store.directory, name, O_RDONLY | O_NOFOLLOW);

    ck_assert_msg(fd != -1, "%s is not there", name);
    ck_assert_int_eq(read(fd, buffer, sizeof(buffer)), (ssize_t)size);
    ck_assert_int_eq(memcmp(buffer, data, size), 0);
    close(fd);
}

void expect_absent(const char *name)
{
    ck_assert_int_eq(faccessat(store.directory, name, F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

void expect_refused(struct message *m, enum transfer_status status)
{
    struct message good = compose("good", 4, "data", 4);

    feed(m, m->length);
    expect_reply(status);
    ck_assert_uint_eq(feed(&good, 7), good.length);
    ck_assert_uint_eq(intake.reply_length, 0);
    expect_absent("good");
}

struct stat status_of(const char *name)
{
    struct stat status;

    ck_assert_msg(fstatat(store.directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0, "%s is not there", name);
    return status;
}

/* ---- The program ---------------------------------------------------------------------------------------- */

static Suite *suite;

TCase *conversations(const char *suite_name)
{
    suite = suite_create(suite_name);
    TCase *tcase = new_case(suite, "conversations");

    tcase_add_checked_fixture(tcase, setup, teardown);
    return tcase;
}

int conversations_run(void)
{
    return run_suite(suite);
}
