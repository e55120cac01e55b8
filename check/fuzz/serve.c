/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve.c - fuzzes the conversations of exs-serve. Several clients send what a client would, or anything, in pieces of
 * any size; time passes, calls fail, clients are slow to read replies, and connections break, in any order.
 *
 * For every input: nothing outside the folder changes. A file gets its name only with a reply that reports that, and
 * only with the bytes that were sent. No temporary file is left, no limit is exceeded, and all memory is freed. The
 * server gives only parts of regular files in the folder, and never of a file that is arriving.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/fuzz/disk.h"
#include "check/support/fake_exs.h"
#include "serve.h"
#include "tools/files/kept.h"

struct world world;

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

static void open_world(void)
{
    open_folder();
    world.inlets.queue = (exs_qhandle_t)&world;
    world.inlets.gone = gone;
    world.inlets.again = again;
    fake_deliver = deliver;
    world.loud = stderr;
    world.quiet = fopen("/dev/null", "we");
    fclose(stdout);
    stdout = world.quiet;
}

/* ---- Steps -------------------------------------------------------------------------------------------- */

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

/* Puts something in the way of a client's file. */
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

/* 0: the server is told to finish. */
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
        complete(sock, EXS_EVT_RECV, 0); /* the client has ended its stream */
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
            /* The fsync of a folder may fail when the file has its name already. */
            world.failed |= world.inlets.store.limits.syncs;
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
    uint8_t how = input_u8(input);

    stderr = world.quiet;
    inlets_begin(inlets);
    inlets->lines.left = how % 8;
    inlets->patience = PATIENCE;
    inlets->rate = 100;
    inlets->most = MOST;
    inlets->of_one = OF_ONE;
    inlets->ending = false;
    inlets->store.next = 0;
    inlets->store.bytes = inlets->store.files = 0;
    inlets->store.limits.keep = 2 * PATIENCE;
    inlets->store.limits.gives = true;
    inlets->store.limits.syncs = how & 8;
    world.digests = 0;
    world.again = false;
    world.failed = false;
}

/* Ends the server, and checks what is left. */
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
    /* After some inputs the buffers stay for the next one, as in a running server. */
    if (world.inlets.lines.suppressed > 0)
        inlets_free(&world.inlets);
    ck_assert_int_eq(fake_regions, world.inlets.blocks.count + (world.inlets.blocks.sink != NULL));
    stderr = world.loud;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};

    if (world.quiet == NULL) {
        open_world();
        atexit(close_folder);
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
