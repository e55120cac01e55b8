/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * put.c - fuzzes exs-put: the server sends any replies, too early or too short, and calls fail, including those for
 * files.
 *
 * For every input: a file counts as sent only if a reply says so and has the file's digest. The message about a failure
 * is one line without control characters.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/fuzz/disk.h"
#include "check/fuzz/input.h"
#include "check/support/fake_exs.h"
#include "tools/files/outlet.h"

enum { FILES = 9, FIFO = 8, ROUNDS = 8, STREAM_MAX = 512 };

static char top[64];
static char path[FILES][128];

static void make_file(int number, const char *name, off_t size)
{
    snprintf(path[number], sizeof(path[number]), "%s/%s", top, name);
    int fd = open(path[number], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(ftruncate(fd, size), 0);
    close(fd);
}

static void remove_files(void)
{
    for (int i = 0; i < FILES; i++)
        if (unlink(path[i]) == -1)
            rmdir(path[i]);
    rmdir(top);
}

static void open_world(void)
{
    const char *parent = getenv("TMPDIR");

    snprintf(top, sizeof(top), "%s/exs-fuzz-put.XXXXXX", parent == NULL ? "/tmp" : parent);
    ck_assert_ptr_nonnull(mkdtemp(top));
    make_file(0, "empty", 0);
    make_file(1, "small", 100);
    make_file(2, "chunks", 150000);
    make_file(3, "pieces", (8 << 20) + 1);
    make_file(4, ".recv_ring", 1);
    make_file(5, "na\tme", 1);
    snprintf(path[6], sizeof(path[6]), "%s/folder", top);
    ck_assert_int_eq(mkdir(path[6], 0700), 0);
    snprintf(path[7], sizeof(path[7]), "%s/nothing", top);
    snprintf(path[FIFO], sizeof(path[FIFO]), "%s/fifo", top);
    ck_assert_int_eq(mkfifo(path[FIFO], 0600), 0);
    atexit(remove_files);
}

/* The server's reply that it has part of the file already, with a right or wrong digest of it. */
static size_t compose_go(struct input *input, unsigned char *out, bool agrees)
{
    struct transfer_reply reply = {.status = TRANSFER_GO, .text_length = TRANSFER_OFFSET};
    uint32_t there = input_u16(input);
    XXH3_state_t *state = XXH3_createState();
    static const unsigned char zeros[UINT16_MAX];

    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, zeros, there);
    transfer_digest(state, reply.digest);
    XXH3_freeState(state);
    reply.digest[0] ^= !agrees;
    transfer_put_reply(out, &reply);
    transfer_put_offset(out + TRANSFER_REPLY, there % 16 == 0 ? UINT64_MAX - there : there);
    return TRANSFER_REPLY + TRANSFER_OFFSET;
}

/* What the server sends: a reply in the valid format, and any bytes. */
static size_t compose(struct input *input, const struct outlet *outlet, unsigned char *out)
{
    uint8_t what = input_u8(input);
    struct transfer_reply reply = {.status = what & 7, .text_length = input_u8(input)};
    const uint8_t *bytes;
    size_t length = what & 32 ? compose_go(input, out, !(what & 64)) : 0;

    if (what & 8) {
        if (what & 16) /* the digest of the last file: a valid reply */
            memcpy(reply.digest, outlet->digest, TRANSFER_DIGEST);
        transfer_put_reply(out + length, &reply);
        length += TRANSFER_REPLY;
    }
    size_t more = input_bytes(input, &bytes, input_u8(input));

    memcpy(out + length, bytes, more);
    return length + more;
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

/* Checks that a success was justified: the replies are still at the front of the stream. */
static void expect_honest(const struct outlet *outlet, const unsigned char *stream, size_t length)
{
    struct transfer_reply reply;

    ck_assert_uint_ge(length, TRANSFER_REPLY);
    ck_assert(transfer_get_reply(stream, &reply));
    if (reply.status == TRANSFER_GO) { /* then the final reply follows */
        ck_assert_uint_ge(outlet->size, outlet->resumed);
        stream += TRANSFER_REPLY + TRANSFER_OFFSET;
        length -= TRANSFER_REPLY + TRANSFER_OFFSET;
        ck_assert_uint_ge(length, TRANSFER_REPLY);
        ck_assert(transfer_get_reply(stream, &reply));
    }
    ck_assert_int_eq(reply.status, TRANSFER_STORED);
    ck_assert_int_eq(memcmp(reply.digest, outlet->digest, TRANSFER_DIGEST), 0);
    ck_assert_uint_le(TRANSFER_REPLY + reply.text_length, length);
}

/* named: length of the directory part, as for a file that was found in a folder. */
static void send_one(struct outlet *outlet, struct input *input, size_t named)
{
    static const int failures[] = {ECONNRESET, EPIPE, ETIMEDOUT, ENOMEM};
    unsigned char stream[STREAM_MAX];
    uint8_t which = input_u8(input);
    const char *file = path[(which & 47) == 40 ? FIFO : which % 8];
    size_t length = compose(input, outlet, stream);

    fake_stream = stream;
    fake_stream_left = length;
    fake_stream_errno = which & 128 ? ECONNRESET : 0;
    fake_stream_hurries = which & 32;
    fake_failing = which & 64 ? failures[input_below(input, 4)] : 0;
    fake_fails_from = (int)input_below(input, 4);
    memset(outlet->client.error, 0, sizeof(outlet->client.error));
    if (which & 16)
        disk_will_fail(input);
    int result = outlet_file(outlet, file, named, strrchr(file, '/') + 1);

    disk_mend();
    if (result == 0) {
        expect_honest(outlet, stream, length);
        return;
    }
    ck_assert_ptr_nonnull(memchr(outlet->client.error, '\0', sizeof(outlet->client.error)));
    ck_assert_uint_gt(strlen(outlet->client.error), 0);
    ck_assert_msg(is_plain(outlet->client.error), "'%s'", outlet->client.error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct outlet outlet = {0};
    static const int failures[] = {ECONNREFUSED, EPROTO, ENODEV, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, EAGAIN};
    struct sockaddr_storage address = {.ss_family = AF_INET};
    struct addrinfo other = {.ai_addr = (struct sockaddr *)&address, .ai_addrlen = sizeof(address)},
                    one = other;

    if (top[0] == '\0')
        open_world();
    fake_reset();
    uint8_t how = input_u8(&input);

    fake_failing = how % 4 == 1 ? failures[(how >> 2) % 7] : 0;
    fake_fails_from = (int)input_below(&input, 4);
    one.ai_next = how & 128 ? &other : NULL;
    outlet.client.patience = how & 64 ? 60 : 0;
    if (client_reach(&outlet.client, &one) == -1) {
        ck_assert_int_eq(outlet.client.sock, -1);
        ck_assert_msg(outlet.client.error[0] != '\0' && is_plain(outlet.client.error), "'%s'",
                      outlet.client.error);
    } else {
        for (int i = 0; i < ROUNDS && input_left(&input) > 0; i++)
            send_one(&outlet, &input, how & 32 ? strlen(top) + 1 : 0);
        client_close(&outlet.client);
    }
    fake_reset();
    return 0;
}
