/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve.c - fuzzes exs-serve's conversations: several clients say what a client would, or anything, torn into
 * pieces of any size, while time passes, calls fail, replies are taken late and connections break, in any
 * order.
 *
 * Whatever the input: nothing outside of the folder is touched, a name appears in it only by a reply that says
 * so and with the bytes that were sent, nothing temporary is left, no limit is exceeded, and everything comes
 * back. What is given is of regular files in the folder, from where it is said to be, and never of what
 * arrives.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/fuzz/disk.h"
#include "check/fuzz/input.h"
#include "check/support/fake_exs.h"
#include "tools/files/giving.h"
#include "tools/files/inlet.h"
#include "tools/files/kept.h"

enum {
    CLIENTS = 24,
    STEPS = 400,
    SAID_MAX = 8192,
    PATIENCE = 4,
    OF_ONE = 2,
    FILE_MAX = 3000,
    TOTAL_MAX = 6000,
    FILES_MAX = 12
};

/* A client, by its socket's number less 1. */
struct client {
    bool open;
    unsigned char said[SAID_MAX]; /* and not yet delivered */
    size_t length;
    unsigned char data[FILE_MAX]; /* of the file that it composes */
    size_t data_length;
};

static struct world {
    char top[64]; /* a folder that has ours in it, and a file beside it */
    struct inlets inlets;
    struct client client[CLIENTS];
    FILE *quiet, *loud;
    unsigned char digest[FILES_MAX][TRANSFER_DIGEST]; /* of files that a reply has said are stored */
    unsigned digests;
    bool failed; /* a call has: it may have been that of a reply */
    bool again;  /* inlets_read is asked for */
    struct stat beside;
} world;

static void gone(struct inlets *inlets)
{
    (void)inlets;
}

static void again(struct inlets *inlets)
{
    (void)inlets;
    world.again = true;
}

static void deliver(void *ahandle, const exs_event_t *event)
{
    if (event->exs_evt_type == EXS_EVT_CLOSE)
        world.client[event->exs_evt_socket - 1].open = false;
    inlet_event(ahandle, event);
}

/* ---- The disk ------------------------------------------------------------------------------------------ */

/* What a server finds in its folder, and what it can't have. */
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

/* ---- The folder ---------------------------------------------------------------------------------------- */

static void open_world(void)
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
    world.inlets.queue = (exs_qhandle_t)&world;
    world.inlets.gone = gone;
    world.inlets.again = again;
    fake_deliver = deliver;
    world.loud = stderr;
    world.quiet = fopen("/dev/null", "we");
    fclose(stdout);
    stdout = world.quiet;
}

static void close_world(void)
{
    char path[96];

    snprintf(path, sizeof(path), "%s/in", world.top);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/beside", world.top);
    unlink(path);
    rmdir(world.top);
}

/* The folder above has what it had, and nothing is written there. */
static void expect_untouched(void)
{
    char path[96];
    struct stat status;
    struct dirent *entry;
    int entries = 0;

    DIR *stream = opendir(world.top);
    while ((entry = readdir(stream)) != NULL)
        entries++;
    closedir(stream);
    ck_assert_int_eq(entries, 4); /* with . and .. */
    snprintf(path, sizeof(path), "%s/beside", world.top);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 6);
}

/* Digests of new replies. */
static void see_replies(void)
{
    struct transfer_reply reply;
    struct fake_call *call;

    STAILQ_FOREACH (call, &fake_calls, entry) {
        if (call->type != EXS_EVT_SEND || call->length < TRANSFER_REPLY || call->seen)
            continue;
        call->seen = true;
        ck_assert(transfer_get_reply(call->sent, &reply));
        ck_assert_uint_eq(call->length, TRANSFER_REPLY + reply.text_length);
        if (reply.status != TRANSFER_STORED)
            continue;
        ck_assert_uint_lt(world.digests, FILES_MAX);
        memcpy(world.digest[world.digests++], reply.digest, TRANSFER_DIGEST);
    }
}

/* It is none that arrives. */
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

/* A part of something that is given. */
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

static void see_given(void)
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

/* A file has bytes of which a reply has said that they are stored. */
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

/* What a folder holds, and those in it. */
struct held {
    unsigned entries; /* files, and folders in it */
    uint64_t bytes;
};

/* What is there has a name that it may have; and then it is no more. Takes the descriptor over. */
static void empty_folder(int directory, struct held *held)
{
    DIR *stream = fdopendir(directory);
    struct dirent *entry;
    struct stat status;

    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ck_assert_int_eq(fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW), 0);
        if (!S_ISLNK(status.st_mode)) { /* those are ours */
            ck_assert_ptr_null(transfer_bad_name(entry->d_name, strlen(entry->d_name)));
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

static void expect_within_limits(void)
{
    struct held held = {0};

    unlinkat(world.inlets.store.directory, "folder", AT_REMOVEDIR); /* ours, if there is nothing in it */
    empty_folder(openat(world.inlets.store.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &held);
    /* Some were replaced; and one folder that is ours is not counted. */
    ck_assert_uint_le(held.entries, world.inlets.store.files + 1);
    ck_assert_uint_le(held.bytes, world.inlets.store.bytes);
}

/* ---- Clients ------------------------------------------------------------------------------------------- */

static void say(struct client *client, const void *bytes, size_t length)
{
    if (length > SAID_MAX - client->length)
        length = SAID_MAX - client->length;
    memcpy(client->said + client->length, bytes, length);
    client->length += length;
}

static void say_raw(struct client *client, struct input *input)
{
    const uint8_t *bytes;
    size_t length = input_bytes(input, &bytes, input_u8(input));

    say(client, bytes, length);
}

/* A file, and what it says that it has of it: what it composed last, or the list of a folder. */
static void say_wish(struct client *client, const char *name, unsigned size)
{
    struct transfer_header header = {.version = TRANSFER_WANTS, .name_length = strlen(name)};
    unsigned char bytes[TRANSFER_HEADER];
    XXH3_state_t *state = XXH3_createState();

    header.size = size & 0x0400 ? size & 0x3ff : client->data_length;
    header.name_length += (size & 0x0800) != 0;
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, client->data, client->data_length);
    transfer_digest(state, header.digest);
    XXH3_freeState(state);
    transfer_put_header(bytes, &header);
    say(client, bytes, sizeof(bytes));
    say(client, name, strlen(name));
    say(client, "/", (size & 0x0800) != 0);
}

static void say_header(struct client *client, struct input *input)
{
    static const char *const names[] = {
        "file",     "folder", "link",    "..",     ".exs-0.part", "a/b",     "..\0",   "caf\xc3\xa9 \xff",
        "folder/x", "link/x", "a/b/c/d", "a/../b", "a//b",        "/beside", "file/x", "a/.exs-0.part"};
    const char *name = names[input_below(input, 16)];
    unsigned size = input_u16(input);
    const struct transfer_header header = {.name_length = strlen(name),
                                           .size = size & 0xfff,
                                           .asks = (size & 0x8000) != 0,
                                           .mode = size >> 3 & 07777,
                                           .seconds = (int32_t)(size << 16)};
    unsigned char bytes[TRANSFER_HEADER];

    if ((size & 0x7000) == 0x7000) {
        say_wish(client, name, size);
        return;
    }
    transfer_put_header(bytes, &header);
    say(client, bytes, sizeof(bytes));
    say(client, name, header.name_length);
    client->data_length = 0;
}

/* Where it goes on. */
static void say_offset(struct client *client, unsigned offset)
{
    unsigned char bytes[TRANSFER_OFFSET];

    transfer_put_offset(bytes, offset);
    say(client, bytes, sizeof(bytes));
}

static void say_data(struct client *client, struct input *input)
{
    uint32_t word = input_u16(input);
    size_t length = word & 0xfff, there = word & 0x4000 ? word >> 12 & 3 : 0;
    unsigned char seed = input_u8(input);

    if (word & 0x8000) { /* it was asked for, and goes on where so much is there */
        memset(client->data, seed, there);
        client->data_length = there;
        say_offset(client, (unsigned)there);
    }
    if (length > FILE_MAX - client->data_length)
        length = FILE_MAX - client->data_length;
    memset(client->data + client->data_length, seed, length);
    say(client, client->data + client->data_length, length);
    client->data_length += length;
}

static void say_digest(struct client *client)
{
    unsigned char digest[TRANSFER_DIGEST];
    XXH3_state_t *state = XXH3_createState();

    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, client->data, client->data_length);
    transfer_digest(state, digest);
    XXH3_freeState(state);
    say(client, digest, sizeof(digest));
}

static void connect_client(int sock, unsigned host)
{
    struct sockaddr_storage peer = {0};
    struct client *client = &world.client[sock - 1];

    if (client->open)
        return;
    memset(client, 0, sizeof(*client));
    if (host < 4) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&peer;

        v4->sin_family = AF_INET;
        v4->sin_addr.s_addr = htonl(0x7f000001 + host / 2);
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&peer;

        v6->sin6_family = AF_INET6;
        v6->sin6_addr.s6_addr[15] = (uint8_t)host;
    }
    int before = world.inlets.count;

    inlet_open(&world.inlets, sock, &peer);
    client->open = world.inlets.count > before;
}

/* All who are not there come from one address. */
static void connect_crowd(void)
{
    for (int sock = 1; sock <= CLIENTS; sock++)
        connect_client(sock, 0);
}

/* ---- Steps --------------------------------------------------------------------------------------------- */

static void take_reply(int sock)
{
    unsigned char bytes[TRANSFER_REPLY + TRANSFER_TEXT_MAX];

    if (fake_first(sock, EXS_EVT_CLOSE) == NULL)
        fake_sent(sock, bytes, sizeof(bytes));
}

static void take_given(int sock)
{
    struct fake_call *call = fake_first(sock, EXS_EVT_SENDFILE);

    if (call == NULL)
        take_reply(sock);
    else if (fake_first(sock, EXS_EVT_CLOSE) == NULL)
        fake_complete(call, 0, call->length, 0);
}

static void arrive(int sock, size_t most)
{
    struct client *client = &world.client[sock - 1];
    size_t length = client->length < most ? client->length : most;

    if (length == 0 || fake_first(sock, EXS_EVT_CLOSE) != NULL)
        return;
    length = fake_arrive(sock, client->said, length);
    client->length -= length;
    memmove(client->said, client->said + length, client->length);
}

static void complete(int sock, int type, int error)
{
    struct fake_call *call = fake_first(sock, type);

    if (call != NULL && fake_first(sock, EXS_EVT_CLOSE) == NULL)
        fake_complete(call, error, 0, 0);
}

/* Things that are in the way of a client's file. */
static void obstruct(unsigned what)
{
    int directory = world.inlets.store.directory;
    char name[32];

    if (what == 0)
        mkdirat(directory, "folder", 0700);
    else if (what == 1)
        symlinkat("../beside", directory, "link");
    else {
        snprintf(name, sizeof(name), ".exs-%u.part", world.inlets.store.next);
        symlinkat("../beside", directory, name);
    }
}

/* None: the server is told to end. */
static void pass(uint32_t seconds)
{
    if (seconds == 0)
        inlets_finish(&world.inlets);
    for (; seconds > 0; seconds--) {
        if (world.again) {
            world.again = false;
            inlets_read(&world.inlets);
        }
        inlets_second(&world.inlets);
    }
}

static void step(struct input *input)
{
    static const int failures[] = {ENOMEM, ECONNRESET, EMFILE, EIO};
    uint8_t what = input_u8(input);
    int sock = 1 + what / 16;
    uint32_t host;
    struct client *client = &world.client[sock - 1];

    switch (what % 16) {
    case 0:
        host = input_below(input, 7);
        if (host < 6)
            connect_client(sock, host);
        else
            connect_crowd();
        break;
    case 1:
        say_raw(client, input);
        break;
    case 2:
        say_header(client, input);
        break;
    case 3:
        say_data(client, input);
        break;
    case 4:
        say_digest(client);
        break;
    case 5:
        arrive(sock, input_u16(input));
        break;
    case 6:
    case 7:
        arrive(sock, SAID_MAX);
        break;
    case 8:
        take_reply(sock);
        break;
    case 9:
        take_given(sock);
        break;
    case 10:
        complete(sock, EXS_EVT_RECV, 0); /* the end */
        break;
    case 11:
        complete(sock, input_u8(input) & 1 ? EXS_EVT_RECV : EXS_EVT_SEND, failures[input_below(input, 4)]);
        break;
    case 12:
        complete(sock, EXS_EVT_SHUTDOWN, 0);
        fake_closed(sock);
        break;
    case 13:
        pass(input_below(input, 3 * PATIENCE));
        break;
    case 14:
        fake_failing = failures[input_below(input, 4)];
        world.failed = true;
        fake_fails_from = (int)input_below(input, 8);
        break;
    default:
        if (input_u8(input) & 1) {
            disk_will_fail(input);
            break;
        }
        disk_pause(true);
        obstruct(input_below(input, 3));
        disk_pause(false);
        break;
    }
}

static void check_limits(void)
{
    const struct store *store = &world.inlets.store;

    ck_assert_uint_le(store->bytes, TOTAL_MAX);
    ck_assert_uint_le(store->files, FILES_MAX);
    ck_assert_int_le(world.inlets.count, CLIENTS);
    see_replies();
    see_given();
}

static void begin(struct input *input)
{
    struct inlets *inlets = &world.inlets;

    stderr = world.quiet;
    inlets_begin(inlets);
    inlets->lines.left = input_u8(input) % 8;
    inlets->patience = PATIENCE;
    inlets->rate = 100;
    inlets->of_one = OF_ONE;
    inlets->ending = false;
    inlets->store.next = 0;
    inlets->store.bytes = inlets->store.files = 0;
    inlets->store.limits.keep = 2 * PATIENCE;
    inlets->store.limits.gives = true;
    world.digests = 0;
    world.again = false;
    world.failed = false;
}

/* The server is told to end. */
static void end(void)
{
    fake_failing = 0;
    disk_mend();
    inlets_close_all(&world.inlets);
    while (kept_drop(&world.inlets.store))
        ;
    for (int sock = 1; sock <= CLIENTS; sock++)
        fake_closed(sock);
    ck_assert_int_eq(world.inlets.count, 0);
    ck_assert(STAILQ_EMPTY(&fake_calls));
    check_limits();
    unlinkat(world.inlets.store.directory, "link", 0);
    expect_within_limits();
    expect_untouched();
    if (world.inlets.lines.suppressed > 0) /* else they are kept, as a server that goes on does */
        inlets_free(&world.inlets);
    ck_assert_int_eq(fake_regions, world.inlets.blocks.count + (world.inlets.blocks.sink != NULL));
    stderr = world.loud;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};

    if (world.quiet == NULL) {
        open_world();
        atexit(close_world);
    }
    begin(&input);
    for (int i = 0; i < STEPS && input_left(&input) > 0; i++) {
        step(&input);
        disk_pause(true);
        check_limits();
        disk_pause(false);
    }
    end();
    return 0;
}
