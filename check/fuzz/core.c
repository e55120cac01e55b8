/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core.c - fuzzes EXS between a program and a peer that do what the input says: calls, messages, connection events,
 * failures and time, in any order.
 *
 * The first bytes choose the device and a scene to start in, so that most inputs begin in the middle of a connection;
 * each byte after them is a step of the program or of a peer. At the end everything is closed and freed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "check/fuzz/app.h"
#include "check/fuzz/core.h"

#define NEVER 0xff0000 /* a generation of handles that no run reaches (core/base/handle.c) */
#define STEPS_MAX 400
#define REPEAT 246 /* first bytes of a step from here on */

/* ---- The device ------------------------------------------------------------------------------------- */

static const enum ibv_wc_status failures[] = {
    IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR,
    IBV_WC_LOC_PROT_ERR,  IBV_WC_REM_INV_REQ_ERR,   IBV_WC_GENERAL_ERR,    IBV_WC_WR_FLUSH_ERR,
};

/* A completion that EXS does not expect: of an unknown connection, or of this one, with any status, also success. */
static void complete_nothing(struct mock_qp *qp, struct input *input, uint8_t choice)
{
    uint64_t unknown = UINT64_C(1) << 62 | (uint64_t)(NEVER + choice) << 20 | (choice & 3);
    enum ibv_wc_status status = failures[choice & 7];

    if ((choice & 0x30) == 0x30)
        mock_mislead(qp, input_u8(input), choice & 8 ? IBV_WC_SUCCESS : status);
    else
        mock_stray(qp->qp.send_cq, choice & 8 ? input_u64(input) : unknown, status);
}

/* A posted request fails, or there is a completion without a request. */
static void fail_work(struct peer *peer, struct input *input)
{
    uint8_t choice = input_u8(input);
    enum ibv_wc_status status = failures[choice & 7];

    if (!peer_reachable(peer))
        return;
    struct mock_qp *qp = mock_qp_of(&peer->id->id);

    if (choice & 0x80)
        complete_nothing(qp, input, choice);
    else if (choice & 0x40)
        mock_receive_error(qp, status);
    else if (mock_sending(qp) != NULL)
        mock_sent(qp, status);
    else
        mock_break(qp);
}

static void pass_time(struct input *input)
{
    static const uint64_t ns[] = {1000000, 1000000000, 3000000000, 9000000000, 31000000000};

    app_time_passes();
    mock_pass_time(ns[input_u8(input) % 5]);
}

static void make_fail(struct input *input)
{
    static const int errors[] = {ENOMEM, EINVAL, EAGAIN, EACCES, ENODEV, EADDRINUSE, EADDRNOTAVAIL, EFAULT};
    uint8_t choice = input_u8(input);

    mock_fail(choice >> 3, errors[choice & 7]);
    peers_lose();
}

/* ---- Steps ------------------------------------------------------------------------------------------ */

static void step_peer(struct input *input, uint8_t what)
{
    struct peer *peer = peer_number(input_u8(input) % 4);

    if (peer == NULL && (peer = peer_number(0)) == NULL)
        return;
    if (what < 40)
        peer_speaks(peer, input);
    else if (what < 64)
        peer_hears(peer, 1 + input_u8(input) % 16);
    else if (what < 76)
        peer_lies(peer, input);
    else if (what < 79)
        fail_work(peer, input);
    else
        peer_serves(peer);
}

static void dequeue(struct input *input)
{
    uint8_t choice = input_u8(input);
    exs_qhandle_t queue = app.queues[choice & 4 ? choice & 3 : 0];

    if ((choice & 7) == 3) /* one of the standby queues */
        queue = app.queues[APP_FEW_QUEUES + choice / 8 % (APP_QUEUES - APP_FEW_QUEUES)];
    app_dequeue(queue != NULL ? queue : app.queues[0], 1 + choice / 8);
}

static void step(struct input *input)
{
    uint8_t what = input_u8(input);

    if (what < 80)
        step_peer(input, what);
    else if (what < 160)
        app_call(input);
    else if (what < 208)
        dequeue(input);
    else if (what < 239)
        news_step(input);
    else if (what < 245)
        pass_time(input);
    else
        make_fail(input);
}

/* A step; or the previous one, repeated many times, to fill a buffer or use up credits. */
static void step_or_repeat(struct input *input, struct input *last)
{
    struct input here = *input;

    if (input_u8(input) < REPEAT) {
        *input = here;
        *last = here;
        step(input);
        return;
    }
    for (int i = input_u8(input) % 32; i > 0 && input_left(last) > 0; i--) {
        here = *last;
        step(&here);
    }
}

/* ---- Scenes ----------------------------------------------------------------------------------------- */

static void go_on_all(struct input *input)
{
    struct mock_id *id;

    LIST_FOREACH (id, &mock_ids, link) {
        news_next(id, input);
    }
    app_dequeue(app.queues[0], 32);
}

/* A socket that connects: the peer was asked, or has also accepted. */
static void scene_connect(struct input *input, int type, bool answered)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = 7};
    struct app_socket *socket = app_socket_add(exs_socket(PF_INET, type, 0), PF_INET, type);
    struct asked *asked = app_ask(EXS_EVT_CONNECT, socket, app.queues[0]);

    app_answer(asked, exs_connect(socket->number, (const struct sockaddr *)&to, sizeof(to), 0, NULL,
                                  app.queues[0], asked));
    for (int i = 0; i < 2; i++) /* address and route */
        go_on_all(input);
    if (answered)
        go_on_all(input);
}

/* A listening socket with an accept, which is pending or has got a connection. */
static void scene_accept(struct input *input, int type, bool met)
{
    struct app_socket *socket = app_socket_add(exs_socket(PF_INET, type, 0), PF_INET, type);
    struct asked *asked = app_ask(EXS_EVT_ACCEPT, socket, app.queues[0]);
    uint8_t bytes[HELLO_SIZE];

    require(exs_listen(socket->number, 4) == 0, "exs_listen: %s", strerror(errno));
    asked->element.exs_ahandle = asked;
    app_answer(asked, exs_accept(socket->number, &asked->element, 1, 0, app.queues[0]));
    if (!met)
        return;
    struct peer *peer = peer_new(NULL);
    struct hello mine = peer_hello(peer, input, type);

    xs_hello_pack(&mine, bytes);
    news_request(LIST_FIRST(&mock_ids), peer, bytes, sizeof(bytes));
    app_dequeue(app.queues[0], 1);
    go_on_all(input);
}

static struct mock_config some_device(struct input *input)
{
    static const uint32_t requests[] = {1u << 30, 4096, 65536, 1u << 20};
    static const int queues[] = {16384, 64, 32, 16}, reads[] = {16, 1, 0, 4};
    uint16_t choice = input_u16(input);

    return (struct mock_config){.max_request = requests[choice & 3],
                                .max_wr = queues[choice >> 2 & 3],
                                .max_cqe = choice & 0x10 ? 65536 : 128,
                                .reads = reads[choice >> 5 & 3],
                                .iwarp = (choice >> 7 & 3) == 3,
                                .has_inline = choice & 0x200,
                                .keeps_cqes = choice & 0x400,
                                .early = choice & 0x800,
                                .cm_unreachable = choice & 0x1000};
}

static void begin(struct input *input)
{
    uint8_t scene = input_u8(input);
    int type = scene & 1 ? SOCK_SEQPACKET : SOCK_STREAM;

    app_begin();
    switch (scene >> 1 & 7) {
    case 0:
        break;
    case 1:
        scene_accept(input, type, false);
        break;
    case 2:
        scene_connect(input, type, false);
        break;
    case 3:
    case 4:
        scene_accept(input, type, true);
        break;
    default:
        scene_connect(input, type, true);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    static bool initialised;

    if (!initialised) {
        struct mock_config config = {.max_request = 1u << 30};

        mock_reset(&config);
        require(exs_init(EXS_VERSION) == 0, "exs_init: %s", strerror(errno));
        initialised = true;
    }
    struct mock_config config = some_device(&input);

    mock_reset(&config);
    begin(&input);
    struct input last = input;

    for (int i = 0; i < STEPS_MAX && input_left(&input) > 0; i++)
        step_or_repeat(&input, &last);
    mock_fail(0, 0);
    app_serve_all();
    app_end();
    peer_reset();
    mock_end();
    return 0;
}
