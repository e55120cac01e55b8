/* SPDX-License-Identifier: BSD-2-Clause */
/* fetch_fixture.c - see fetch_fixture.h. */
#include "fetch_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/support/fake_exs.h"
#include "check/support/runner.h"

static char folder[] = "fetch-XXXXXX";
int directory;
struct recent recent;
uint64_t kept;
static struct blocks blocks;
struct fetch fetch;
unsigned char stream[LARGE + 4096];
size_t length;

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
    recent_init(&recent);
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
    recent_forget(&recent);
    close(directory);
    ck_assert_int_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- The server's data ---------------------------------------------------------------------------------- */

static void say(const void *bytes, size_t count)
{
    ck_assert_uint_le(count, sizeof(stream) - length);
    memcpy(stream + length, bytes, count);
    length += count;
}

void say_reply(unsigned status, const void *text, size_t text_length)
{
    const struct transfer_reply reply = {.status = (enum transfer_status)status, .text_length = text_length};
    unsigned char bytes[TRANSFER_REPLY];

    transfer_put_reply(bytes, &reply);
    say(bytes, sizeof(bytes));
    say(text, text_length);
}

void say_coming(uint64_t size, uint64_t from)
{
    const struct transfer_header header = {
        .size = size, .mode = 0666, .seconds = 981173106, .nanoseconds = 789};
    unsigned char text[TRANSFER_COMING];

    transfer_put_coming(text, &header, from);
    say_reply(TRANSFER_COMES, text, sizeof(text));
}

const unsigned char *noise(void)
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

void say_file(size_t size, size_t from)
{
    say_coming(size, from);
    say(noise() + from, size - from);
    say_digest(size);
}

void say_entry(unsigned kind, uint64_t size, const char *name)
{
    const struct transfer_entry entry = {
        .kind = (enum transfer_kind)kind, .name_length = strlen(name), .size = size};
    unsigned char bytes[TRANSFER_ENTRY];

    transfer_put_entry(bytes, &entry);
    say(bytes, sizeof(bytes));
    say(name, entry.name_length);
}

void serve(void)
{
    fake_stream = stream;
    fake_stream_left = length;
}

/* ---- Local files ---------------------------------------------------------------------------------------- */

void make(const char *name, size_t size)
{
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    ck_assert_int_eq(write(fd, noise(), size), (ssize_t)size);
    close(fd);
}

off_t size_of(const char *name)
{
    struct stat status;

    return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == -1 ? -1 : status.st_size;
}

void expect_file(const char *name, size_t size)
{
    static unsigned char bytes[LARGE + 1];
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW);

    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(read(fd, bytes, sizeof(bytes)), (ssize_t)size);
    ck_assert_int_eq(memcmp(bytes, noise(), size), 0);
    close(fd);
}

/* ---- The program --------------------------------------------------------------------------------------- */

int get(const char *name)
{
    struct landing landing;
    int result = landing_open(&landing, &recent, directory, name);

    if (result == 0) {
        serve();
        result = fetch_file(&fetch, name, &landing);
    } else {
        snprintf(fetch.client.error, sizeof(fetch.client.error), "%s", strerror(errno));
    }
    int saved = errno;

    kept = landing_end(&landing);
    errno = saved;
    return result;
}

void expect_failure(const char *want)
{
    ck_assert_int_eq(get("file"), -1);
    ck_assert_msg(strstr(fetch.client.error, want) != NULL, "said: %s", fetch.client.error);
    ck_assert_int_eq(size_of("file"), -1);
    ck_assert_int_eq(fetch.client.sock, -1); /* the connection was closed */
}

TCase *fetch_case(Suite *suite, const char *name)
{
    TCase *tcase = new_case(suite, name);

    tcase_add_checked_fixture(tcase, setup, teardown);
    return tcase;
}
