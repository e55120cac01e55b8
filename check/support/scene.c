/* SPDX-License-Identifier: BSD-2-Clause */
/* scene.c - see scene.h. */
#include "scene.h"

struct scene scene;

static int accept_raw(struct raw *raw, struct hello hello)
{
    exs_acceptaddr_t wanted = {.exs_addr = NULL};

    must(exs_accept(scene.listener, &wanted, 1, 0, scene.box.queue));
    raw_connect(raw, &scene.address, hello);
    take_good(&scene.box, EXS_EVT_ACCEPT, scene.listener);
    return wanted.exs_socket;
}

int scene_accept(struct raw *raw, struct hello hello)
{
    raw_open(raw, &scene.box);
    return accept_raw(raw, hello);
}

void scene_stage(int socktype)
{
    init_library();
    inbox_open(&scene.box, 64);
    pair_open_on(&scene.others, AF_INET, SOCK_STREAM, &scene.box, &scene.box);
    scene.socktype = socktype;
    scene.listener = open_listener(AF_INET, socktype, 4, &scene.address);
    scene.server = -1;
    scene.in = new_buffer(BYTES + 1);
    scene.out = new_buffer(SENT);
    raw_open(&scene.raw, &scene.box);
}

void scene_enter(struct hello hello)
{
    scene.server = accept_raw(&scene.raw, hello);
}

void scene_open(struct hello hello)
{
    scene_stage(hello.socktype);
    scene_enter(hello);
}

void scene_open_type(int socktype)
{
    scene_open(raw_hello(socktype));
}

void scene_close(void)
{
    struct inbox *box = &scene.box;
    int client, server;

    inbox_quiet(box, 0);
    same_bytes(scene.in + BYTES, 1, CANARY);
    if (scene.server >= 0)
        close_socket(box, scene.server);
    raw_close(&scene.raw);
    pass_bytes(box, scene.others.client, box, scene.others.server, SENT, 1);
    connect_ends(scene.listener, scene.socktype, &scene.address, box, box, &client, &server);
    pass_bytes(box, client, box, server, BYTES, 2);
    close_socket(box, client);
    close_socket(box, server);
    close_socket(box, scene.listener);
    pair_close(&scene.others);
    inbox_close(box);
    free(scene.in);
    free(scene.out);
}

struct control scene_do(enum doing what)
{
    struct control advert = {0};

    if (what == RECEIVING) {
        must(exs_recv(scene.server, scene.in, BYTES, 0, scene.box.queue, NULL, NULL));
        advert = raw_hear_control(&scene.raw, CONTROL_ADVERT);
        ck_assert_uint_eq(advert.length, BYTES);
    } else if (what == SENDING) {
        must(exs_send(scene.server, scene.out, SENT, 0, scene.box.queue, NULL, NULL));
        for (uint32_t told = 0; scene.socktype == SOCK_STREAM && told < RAW_RECV_RING;) {
            struct raw_message message = raw_hear(&scene.raw);
            ck_assert(message.data);
            told += message.imm;
        }
    }
    return advert;
}

void scene_undone(enum doing what)
{
    if (what == RECEIVING)
        take_failed(&scene.box, EXS_EVT_RECV, scene.server, ECONNRESET);
    else if (what == SENDING)
        take_failed(&scene.box, EXS_EVT_SEND, scene.server, ECONNRESET);
}

void scene_broken(void)
{
    char byte = 0;

    raw_ended(&scene.raw);
    must_fail(exs_send(scene.server, &byte, 1, 0, scene.box.queue, NULL, NULL), ECONNRESET);
    must_fail(exs_recv(scene.server, &byte, 1, 0, scene.box.queue, NULL, NULL), ECONNRESET);
}

void scene_alive(void)
{
    char byte = 0;

    must(exs_send(scene.server, "a", 1, 0, scene.box.queue, NULL, NULL));
    take_good(&scene.box, EXS_EVT_SEND, scene.server);
    while (!raw_hear(&scene.raw).data)
        ;
    must(exs_recv(scene.server, &byte, 1, 0, scene.box.queue, NULL, NULL));
    pattern_fill(scene.raw.room, 1, 3, 0);
    raw_indirect(&scene.raw, 1);
    take_good(&scene.box, EXS_EVT_RECV, scene.server);
    pattern_check(&byte, 1, 3, 0);
}
