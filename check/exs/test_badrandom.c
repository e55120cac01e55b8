/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_badrandom.c - conversations with a peer that mostly follows the protocol and sometimes sends invalid messages:
 * each operation has exactly one event, no byte outside a buffer is written at either end, and other connections are
 * served. The software device and rdma-core behave alike. EXS_SEED repeats a conversation.
 */
#include "check/support/scene.h"

#define OPS 8                  /* maximum number of receives, and of sends, per conversation */
#define ACTS 120               /* maximum number of the peer's actions per conversation */
#define LONGEST 30000          /* bytes of a receive */
#define GUARD 0x77             /* a value that the peer never sends */
#define OFFERED (RAW_ROOM / 2) /* bytes of its memory that the peer advertises */

/* One conversation. */
static struct {
    struct chance chance;
    struct raw raw;
    struct hello hello;
    int server, receives, sends, shutdowns;
    char *in[OPS];
    size_t length[OPS];
    struct control adverts[32]; /* received and not used yet */
    int advert_count;
    uint64_t heard;   /* bytes that arrived in the peer's ring buffer */
    uint64_t arrived; /* bytes that arrived in all */
    unsigned owed;    /* credits to return */
} talk;

static size_t below(size_t limit)
{
    return chance_below(&talk.chance, limit);
}

/* ---- Actions of EXS --------------------------------------------------------------------- */

static void start_receive(void)
{
    if (talk.receives == OPS)
        return;
    char *in = new_buffer(LONGEST + 64);
    size_t length = chance_size(&talk.chance, 1, LONGEST);

    memset(in, GUARD, LONGEST + 64);
    if (exs_recv(talk.server, in, length, below(3) ? 0 : MSG_WAITALL, scene.box.queue, in, NULL) < 0) {
        free(in); /* the connection is already broken */
        return;
    }
    talk.length[talk.receives] = length;
    talk.in[talk.receives++] = in;
}

static void start_send(void)
{
    if (talk.sends < OPS && exs_send(talk.server, scene.out, chance_size(&talk.chance, 1, SENT), 0,
                                     scene.box.queue, NULL, NULL) == 0)
        talk.sends++;
}

static void start_shutdown(void)
{
    if (exs_shutdown(talk.server, below(2) ? SHUT_RD : SHUT_WR, 0, scene.box.queue, NULL) == 0)
        talk.shutdowns++;
}

static void exs_acts(void)
{
    size_t what = below(20);

    if (what < 4)
        start_receive();
    else if (what < 7)
        start_send();
    else if (what == 7)
        start_shutdown();
}

/* ---- Actions of the peer ---------------------------------------------------------------- */

static void listen_to_exs(void)
{
    raw_look(&talk.raw);
    for (int i = 0; i < talk.raw.message_count; i++) {
        const struct raw_message *message = &talk.raw.messages[i];

        talk.owed++;
        if (message->data) {
            talk.arrived += message->imm & IMM_LENGTH;
            talk.heard += message->imm & IMM_DIRECT ? 0 : message->imm & IMM_LENGTH;
        } else if (message->control.type == CONTROL_ADVERT && talk.advert_count < COUNT(talk.adverts)) {
            talk.adverts[talk.advert_count++] = message->control;
        }
    }
    talk.raw.message_count = 0;
}

static void say(struct control control)
{
    control.credits = (uint16_t)talk.owed;
    talk.owed = 0;
    raw_control(&talk.raw, control);
}

static void use_advert(void)
{
    if (talk.advert_count == 0)
        return;
    struct control advert = talk.adverts[0];
    uint32_t bytes = (uint32_t)chance_size(&talk.chance, 1, advert.length);

    memmove(talk.adverts, talk.adverts + 1, (size_t)--talk.advert_count * sizeof advert);
    raw_direct(&talk.raw, &advert, bytes, below(8) || bytes == advert.length ? 0 : IMM_MORE);
}

static void use_recv_ring(void)
{
    const struct hello *there = &talk.raw.there;
    uint64_t left = there->recv_ring_size - talk.raw.told % there->recv_ring_size;
    uint32_t bytes = (uint32_t)chance_size(&talk.chance, 1, 5000);

    raw_indirect(&talk.raw, bytes < left ? bytes : (uint32_t)left);
}

static void advertise(void)
{
    struct control advert = raw_advert(&talk.raw);
    size_t from = below(OFFERED);

    advert.addr += from;
    advert.length = 1 + below(OFFERED - from);
    advert.phase = (uint32_t)(2 * below(3));
    advert.position = talk.arrived;
    advert.flags = (uint8_t)below(2);
    say(advert);
}

/* A control message whose fields are valid, but perhaps not at this moment. */
static void say_anything(void)
{
    struct control control = {
        .type = (uint8_t)(CONTROL_ADVERT + below(CONTROL_DATA)),
        .phase = (uint32_t)chance_size(&talk.chance, 0, UINT32_MAX),
        .position = chance_size(&talk.chance, 0, talk.arrived + 2),
        .addr = (uintptr_t)talk.raw.room,
        .length = chance_size(&talk.chance, 0, OFFERED),
        .rkey = talk.raw.mr->rkey,
    };

    say(control);
}

static void say_noise(void)
{
    uint8_t noise[64];

    pattern_fill(noise, sizeof noise, chance_next(&talk.chance), 0);
    noise[0] = (uint8_t)below(CONTROL_DATA + 2);
    raw_send(&talk.raw, noise, below(4) ? CONTROL_SIZE : below(sizeof noise + 1));
}

static void say_data(void)
{
    uint32_t flags = (uint32_t)below(16) << 28; /* IMM_DIRECT to IMM_CREDITS */

    raw_data(&talk.raw, flags | (uint32_t)chance_size(&talk.chance, 0, below(20) ? LONGEST : IMM_LENGTH));
}

static void peer_acts(void)
{
    size_t what = below(100);

    if (what < 25)
        use_advert();
    else if (what < 40)
        use_recv_ring();
    else if (what < 55)
        advertise();
    else if (what < 70)
        say((struct control){.type = CONTROL_ACK, .position = talk.heard});
    else if (what < 80)
        say((struct control){.type = CONTROL_CREDIT});
    else if (what < 82)
        say((struct control){.type = CONTROL_FIN});
    else if (what < 85)
        say((struct control){.type = CONTROL_RECALL});
    else if (what < 87)
        say((struct control){.type = CONTROL_RECALLED});
    else if (what < 88)
        say_noise();
    else if (what < 90)
        say_data();
    else if (what < 92)
        say_anything();
}

/* ---- Conversations ---------------------------------------------------------------------- */

static bool over(void)
{
    return talk.raw.status != IBV_WC_SUCCESS || talk.raw.event_count > 0;
}

static void begin(int socktype)
{
    struct chance chance = talk.chance;

    memset(&talk, 0, sizeof talk);
    talk.chance = chance;
    talk.hello = raw_hello(socktype);
    talk.hello.recv_ring_size = (uint32_t)chance_size(&talk.chance, HELLO_RECV_RING_MIN, RAW_RECV_RING);
    talk.hello.adverts = (uint16_t)(1 + below(32));
    talk.hello.credits = HELLO_CREDITS_MIN + (uint32_t)below(RAW_DEPTH / 2);
    talk.hello.flags = (uint16_t)below(4); /* HELLO_NO_IMMEDIATE, HELLO_IMM_CREDITS */
    talk.server = scene_accept(&talk.raw, talk.hello);
}

/* EXS has written only to memory that the peer advertised. */
static void check_peer(void)
{
    same_bytes(talk.raw.recv_ring + talk.hello.recv_ring_size, RAW_RECV_RING - talk.hello.recv_ring_size,
               CANARY);
    same_bytes(talk.raw.room + OFFERED, RAW_ROOM - OFFERED, CANARY);
}

static void check_event(const exs_event_t *event)
{
    ck_assert_msg(event->exs_evt_errno == 0 || event->exs_evt_errno == ECONNRESET ||
                      event->exs_evt_errno == ECANCELED,
                  "errno is %s", strerrorname_np(event->exs_evt_errno));
}

/* Checks that there is one event for each operation, in order, and no other. */
static void check_events(void)
{
    for (int i = 0; i < talk.receives; i++) {
        exs_event_t event = inbox_take(&scene.box, EXS_EVT_RECV, talk.server);

        check_event(&event);
        ck_assert_ptr_eq(event.exs_evt_ahandle, talk.in[i]);
        ck_assert_uint_le(event.exs_evt_union.exs_evt_xfer.exs_evt_length, talk.length[i]);
        same_bytes(talk.in[i] + talk.length[i], LONGEST + 64 - talk.length[i], GUARD);
        free(talk.in[i]);
    }
    for (int i = 0; i < talk.sends + talk.shutdowns; i++) {
        exs_event_t event =
            inbox_take(&scene.box, i < talk.sends ? EXS_EVT_SEND : EXS_EVT_SHUTDOWN, talk.server);
        check_event(&event);
    }
    inbox_quiet(&scene.box, 0);
}

static void converse(int socktype)
{
    begin(socktype);
    for (size_t acts = below(ACTS); acts > 0 && !over(); acts--) {
        exs_acts();
        peer_acts();
        if (below(3) == 0)
            inbox_pump(&scene.box, 0);
        listen_to_exs();
    }
    check_peer();
    raw_close(&talk.raw);
    close_socket(&scene.box, talk.server);
    check_events();
}

START_TEST(any_conversation)
{
    int conversations = 0;

    talk.chance = chance_new();
    scene_open_type(_i ? SOCK_STREAM : SOCK_SEQPACKET);
    for (double end = seconds_now() + seconds_to_spend(); seconds_now() < end; conversations++)
        converse(scene.socktype);
    fprintf(stderr, "# %d conversations\n", conversations);
    scene_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("badrandom");
    TCase *any = add_bare_case(suite, "any", 80);

    tcase_add_loop_test(any, any_conversation, 0, 2);
    return run_suite(suite);
}
