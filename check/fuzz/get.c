/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * get.c - fuzzes exs-get: the server sends any files and lists, too early, too short or too long, and calls fail,
 * including those for files.
 *
 * For every input: a file gets its name only if its bytes match the digest that the server has sent. The folder holds
 * nothing but the requested files and their temporary files, and nothing outside it changes. The names in a list are
 * valid file names. The message about a failure is one line without control characters.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/fuzz/disk.h"
#include "check/fuzz/input.h"
#include "check/support/fake_exs.h"
#include "tools/files/wishes.h"

enum { ROUNDS = 8, STREAM_MAX = 8192, DATA_MAX = 1500, LIMIT = 4 << 20 };

static struct world {
    char top[64];
    int folder;
    int output, part; /* replaces standard output; a partial file that another process has locked, or -1 */
    struct blocks blocks;
    struct block *block;
    struct stat beside;
    unsigned char stream[STREAM_MAX];
    size_t length;
} world;

static void open_world(void)
{
    const char *parent = getenv("TMPDIR");
    char path[96];

    snprintf(world.top, sizeof(world.top), "%s/exs-fuzz-get.XXXXXX", parent == NULL ? "/tmp" : parent);
    ck_assert_ptr_nonnull(mkdtemp(world.top));
    snprintf(path, sizeof(path), "%s/in", world.top);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    world.block = block_take(&world.blocks);
    world.output = memfd_create("output", MFD_CLOEXEC);
    world.part = -1;
    ck_assert(world.output != -1 && dup2(world.output, STDOUT_FILENO) == STDOUT_FILENO);
    world.folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof(path), "%s/beside", world.top);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, "beside", 6), 6);
    ck_assert_int_eq(fstat(fd, &world.beside), 0);
    close(fd);
}

static void close_world(void)
{
    char path[96];

    block_return(&world.blocks, world.block);
    blocks_free(&world.blocks);
    snprintf(path, sizeof(path), "%s/in", world.top);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/beside", world.top);
    unlink(path);
    rmdir(world.top);
}

/* ---- What the server sends ------------------------------------------------------------------------------ */

static void say(const void *bytes, size_t length)
{
    if (length > STREAM_MAX - world.length)
        length = STREAM_MAX - world.length;
    memcpy(world.stream + world.length, bytes, length);
    world.length += length;
}

static void say_raw(struct input *input)
{
    const uint8_t *bytes;
    size_t length = input_bytes(input, &bytes, input_u8(input));

    say(bytes, length);
}

static void say_reply(unsigned status, const void *text, size_t text_length)
{
    const struct transfer_reply reply = {.status = (enum transfer_status)status, .text_length = text_length};
    unsigned char bytes[TRANSFER_REPLY];

    transfer_put_reply(bytes, &reply);
    say(bytes, sizeof(bytes));
    say(text, text_length);
}

/* A file of equal bytes, with a right or wrong size and digest, and perhaps an offset at which it continues. */
static void say_file(struct input *input)
{
    uint32_t word = input_u16(input);
    struct transfer_header header = {
        .size = word % DATA_MAX, .mode = word & 0777, .seconds = (int32_t)(word << 16)};
    unsigned char text[TRANSFER_COMING], digest[TRANSFER_DIGEST], data[DATA_MAX];
    uint8_t how = input_u8(input);
    XXH3_state_t *state = XXH3_createState();

    memset(data, how, sizeof(data));
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, data, header.size);
    transfer_digest(state, digest);
    XXH3_freeState(state);
    if (how & 16)
        header.size = how & 32 ? UINT64_MAX - word : (uint64_t)word << 7;
    transfer_put_coming(text, &header, how & 64 ? word % 1024 : 0);
    say_reply(TRANSFER_COMES, text, sizeof(text));
    say(data, word % DATA_MAX);
    say(digest, how & 128 ? how % TRANSFER_DIGEST : TRANSFER_DIGEST);
}

static void say_list(struct input *input)
{
    static const char *const names[] = {
        "a", "b", "", "..", "../beside", "folder", ".a", "a\n", "caf\xc3\xa9 \x9b"};

    say_reply(TRANSFER_LISTS, "", 0);
    for (unsigned count = input_below(input, 8); count > 0; count--) {
        uint8_t what = input_u8(input);
        const char *name = names[what % 9];
        const struct transfer_entry entry = {.kind = (enum transfer_kind)(what >> 4 & 3),
                                             .name_length = strlen(name),
                                             .size = what & 128 ? UINT64_MAX : what};
        unsigned char bytes[TRANSFER_ENTRY];

        transfer_put_entry(bytes, &entry);
        say(bytes, sizeof(bytes));
        say(name, entry.name_length);
    }
    if (input_u8(input) & 7) {
        static const unsigned char no_more[TRANSFER_ENTRY];

        say(no_more, sizeof(no_more));
    }
}

static void compose(struct input *input)
{
    world.length = 0;
    for (unsigned parts = 1 + input_below(input, 4); parts > 0; parts--) {
        uint8_t what = input_u8(input);

        if (what % 4 == 0)
            say_raw(input);
        else if (what % 4 == 1)
            say_file(input);
        else if (what % 4 == 2)
            say_list(input);
        else
            say_reply(what >> 2 & 15, "no \x1b[2J", 7);
    }
}

/* ---- What the client does ------------------------------------------------------------------------------- */

static void expect_plain(const struct client *client)
{
    ck_assert_ptr_nonnull(memchr(client->error, '\0', sizeof(client->error)));
    ck_assert_uint_gt(strlen(client->error), 0);
    for (const char *at = client->error; *at != '\0'; at++)
        ck_assert_msg((unsigned char)*at >= 0x20 && *at != 0x7f, "'%s'", client->error);
    ck_assert_int_eq(client->sock, -1);
}

/* The file's digest is the one received last. */
static void expect_agreed(const struct fetch *fetch, int fd)
{
    unsigned char bytes[DATA_MAX + 1], digest[TRANSFER_DIGEST];
    XXH3_state_t *state = XXH3_createState();
    ssize_t length = pread(fd, bytes, sizeof(bytes), 0);

    ck_assert_int_eq(length, (ssize_t)fetch->size);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, bytes, (size_t)length);
    transfer_digest(state, digest);
    XXH3_freeState(state);
    ck_assert_int_eq(memcmp(digest, fetch->digest, TRANSFER_DIGEST), 0);
    ck_assert_int_eq(memcmp(digest, fake_stream - TRANSFER_DIGEST, TRANSFER_DIGEST), 0);
}

/* Puts something in the way: a partial file of an earlier or a concurrent attempt, the file itself, a folder, a link or
 * a FIFO. */
static void prepare(unsigned how)
{
    static const char part[] = ".file.exs-part";
    int fd;

    if (how == 1)
        symlinkat("../beside", world.folder, part);
    else if (how == 2)
        symlinkat("../beside", world.folder, "file");
    else if (how == 3) {
        fd = openat(world.folder, part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ck_assert_int_eq(ftruncate(fd, LANDING_KEEP), 0);
        close(fd);
    } else if (how == 4)
        mkdirat(world.folder, "file", 0700);
    else if (how == 5) {
        world.part = openat(world.folder, part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        flock(world.part, LOCK_EX);
    } else if (how == 6) {
        close(openat(world.folder, part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        linkat(world.folder, part, world.folder, "file", 0);
    } else if (how == 7)
        mkfifoat(world.folder, part, 0600);
}

static void get_into(struct fetch *fetch, struct landing *landing)
{
    bool done = fetch_file(fetch, "file", landing) == 0;

    disk_pause(true);
    if (done && landing->is_output) {
        expect_agreed(fetch, world.output);
    } else if (done) {
        /* The input chooses the file's mode, which may deny its owner reading. */
        (void)!fchmodat(world.folder, "file", 0600, 0);
        int fd = openat(world.folder, "file", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

        expect_agreed(fetch, fd);
        close(fd);
    } else if (fetch->client.sock == -1) { /* otherwise only the renaming has failed */
        expect_plain(&fetch->client);
    }
    disk_pause(false);
}

static void get_file(struct fetch *fetch, unsigned how)
{
    struct landing landing;
    struct recent recent;

    recent_init(&recent);
    if (landing_open(&landing, &recent, world.folder, "file") == 0) {
        /* What was opened is a partial file that no other process uses. If flock fails, that is not known. */
        ck_assert(landing.fd == -1 || (how != 1 && how < 6 && (how != 5 || disk_has_failed())));
        get_into(fetch, &landing);
    }
    landing_end(&landing);
    recent_forget(&recent);
}

static void get_output(struct fetch *fetch)
{
    struct landing landing;

    disk_pause(true);
    ck_assert(ftruncate(world.output, 0) == 0 && lseek(world.output, 0, SEEK_SET) == 0);
    disk_pause(false);
    landing_open_output(&landing, STDOUT_FILENO);
    get_into(fetch, &landing);
    landing_end(&landing);
}

/* Adds a path as the command line does. */
static void name_one(struct picks *picks, char *name)
{
    size_t length;

    wishes_plain(name);
    length = strlen(name);
    ck_assert(length == 0 || (name[0] != '/' && name[length - 1] != '/'));
    ck_assert_int_eq(wishes_add(picks, name), 0);
}

/* Each line has a number, or none, and a name without control characters, or is a JSON object with them. */
static void list_tree(struct fetch *fetch, const char *name, bool json)
{
    char *text, *line, *left;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (wishes_list(out, fetch, name, json) == -1)
        ck_assert(strlen(fetch->client.error) > 0);
    fclose(out);
    left = text;
    while ((line = strsep(&left, "\n")) != NULL && left != NULL) {
        ck_assert(json ? line[0] == '{' : strlen(line) > 16 && line[15] == ' ');
        for (const char *at = line; *at != '\0'; at++)
            ck_assert_msg((unsigned char)*at >= 0x20 && *at != 0x7f, "'%s'", line);
    }
    free(text);
}

static void get_tree(struct fetch *fetch, unsigned how)
{
    static char too_long[TRANSFER_PATH_MAX + 2];
    char names[][16] = {"/folder//", "a/b/", "//", "..", "", "a/../b", "folder/.", "c"};
    struct picks picks = {0};

    memset(too_long, 'a', sizeof(too_long) - 1);
    name_one(&picks, names[how]);
    if (how == 1)
        list_tree(fetch, too_long, false);
    if (wishes_add_tree(&picks, fetch, names[how]) == -1)
        expect_plain(&fetch->client);
    for (size_t i = 0; i < picks.count; i++)
        if (picks.list[i].problem == NULL) {
            ck_assert_ptr_null(transfer_bad_path(picks.list[i].path, strlen(picks.list[i].path)));
            ck_assert_ptr_null(transfer_bad_path(picks.list[i].name, strlen(picks.list[i].name)));
        }
    picks_free(&picks);
}

/* Checks that the folder has only files that may be there, and removes them. */
static void empty_folder(void)
{
    int copy = openat(world.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fdopendir(copy);
    struct dirent *entry;
    struct stat status;
    char path[96];

    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ck_assert_msg(strcmp(entry->d_name, "file") == 0 || strcmp(entry->d_name, ".file.exs-part") == 0,
                      "'%s' is there", entry->d_name);
        if (unlinkat(world.folder, entry->d_name, 0) == -1)
            unlinkat(world.folder, entry->d_name, AT_REMOVEDIR);
    }
    closedir(stream);
    snprintf(path, sizeof(path), "%s/beside", world.top);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 6);
    ck_assert_int_eq(status.st_mtim.tv_sec, world.beside.st_mtim.tv_sec);
}

static void get_one(struct fetch *fetch, struct input *input)
{
    static const int failures[] = {ECONNRESET, EPIPE, ETIMEDOUT, ENOMEM};
    uint8_t which = input_u8(input);

    compose(input);
    fake_stream = world.stream;
    fake_stream_left = world.length;
    fake_stream_errno = which & 128 ? ECONNRESET : 0;
    fake_failing = which & 64 ? failures[input_below(input, 4)] : 0;
    fake_fails_from = (int)input_below(input, 6);
    memset(fetch->client.error, 0, sizeof(fetch->client.error));
    fetch->client.sock = 1;
    prepare(which >> 1 & 7);
    if (which & 16)
        disk_will_fail(input);
    if ((which & 33) == 33)
        list_tree(fetch, "folder", which & 2);
    else if (which & 1)
        get_tree(fetch, which >> 1 & 7);
    else if (which & 32)
        get_output(fetch);
    else
        get_file(fetch, which >> 1 & 7);
    disk_mend();
    if (world.part != -1)
        close(world.part);
    world.part = -1;
    empty_folder();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct fetch fetch = {.limit = LIMIT, .quiet = true};

    if (world.top[0] == '\0') {
        open_world();
        atexit(close_world);
    }
    fetch.block = world.block;
    for (int i = 0; i < ROUNDS && input_left(&input) > 0; i++)
        get_one(&fetch, &input);
    fake_reset();
    return 0;
}
