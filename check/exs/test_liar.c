/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_liar.c - a peer that sets up shared memory correctly and then writes invalid values to it. Either the connection
 * ends like any broken one, with one line in the log, or the value has no effect. Other connections of the same queue
 * are served.
 */
#include "check/support/scene.h"

#include "core/base/fds.h"
#include "core/base/settings.h"
#include "soft/service/home.h"

#define SCRIBBLES 2000 /* per round */
#define ROUNDS 20

static FILE *log_lines; /* standard error */

/* The peer's view of the shared memory. */
static struct shm_peer *liar(void)
{
    struct shm_peer *peer = TAILQ_FIRST(&home_of(scene.raw.id->verbs)->shm.looked_at);

    ck_assert_msg(peer != NULL, "no shared memory");
    return peer;
}

static void begin(void)
{
    must(setenv("EXS_LINK", "shm", 1));
    must(setenv("EXS_DEBUG", "1", 1));
    log_lines = tmpfile();
    ck_assert_ptr_nonnull(log_lines);
    must(dup2(fileno(log_lines), STDERR_FILENO));
    settings_read(NULL);
    scene_open_type(SOCK_STREAM);
    scene_alive();
}

static int lines_of_lies(void)
{
    char line[256];
    int count = 0;

    rewind(log_lines);
    while (fgets(line, sizeof line, log_lines) != NULL)
        count += strstr(line, "an invalid value to shared memory") != NULL;
    return count;
}

/* ---- Invalid values of each word ----------------------------------------------------------------------- */

static void tail_at(uint64_t tail)
{
    atomic_store(&liar()->out.control->tail, tail);
}

/* Writes a header where the next one is expected, and moves the tail by `told` bytes. */
static void header(uint32_t length, uint32_t stride, uint64_t told)
{
    struct shm_ring *out = &liar()->out;
    _Atomic uint32_t *words = (_Atomic uint32_t *)(void *)(out->bytes + out->at % SHM_RING_BYTES);

    atomic_store(&words[0], length);
    atomic_store(&words[1], stride);
    tail_at(out->at + told);
}

static void head_at(uint64_t head)
{
    atomic_store(&liar()->in.control->head, head);
}

static void tail_is_odd(void)
{
    tail_at(liar()->out.at + 1);
}
static void tail_is_far(void)
{
    tail_at(liar()->out.at + SHM_RING_BYTES + SHM_ALIGN);
}
static void tail_goes_back(void)
{
    tail_at(liar()->out.at - SHM_ALIGN);
}
static void tail_is_none(void)
{
    tail_at(UINT64_MAX - SHM_ALIGN + 1);
}
static void nothing_long(void)
{
    header(0, 100, SHM_ALIGN);
}
static void longer_than_told(void)
{
    header(1000, 1000, SHM_ALIGN);
}
static void longer_than_any(void)
{
    header(SOFT_BURST_LONG + 1, 1000, SHM_RING_BYTES);
}
static void no_stride(void)
{
    header(20, 0, SHM_ALIGN);
}
static void skips_what_is_not_there(void)
{
    header(SHM_SKIP, 0, SHM_ALIGN);
}
static void head_is_ahead(void)
{
    head_at(liar()->in.at + SHM_RING_BYTES);
}
static void head_goes_back(void)
{
    head_at(liar()->in.at - SHM_RING_BYTES);
}
static void head_is_none(void)
{
    head_at(UINT64_MAX);
}

static const struct lie {
    const char *what;
    void (*tell)(void);
    bool to_sender;
} lies[] = {
    {"a tail amid a header", tail_is_odd, false},
    {"a tail further than the ring is long", tail_is_far, false},
    {"a tail that goes back", tail_goes_back, false},
    {"a tail before the first", tail_is_none, false},
    {"a burst of nothing", nothing_long, false},
    {"a burst longer than told", longer_than_told, false},
    {"a burst longer than any", longer_than_any, false},
    {"packets of no length", no_stride, false},
    {"a skip over what was not told", skips_what_is_not_there, false},
    {"a head of what was not sent", head_is_ahead, true},
    {"a head that goes back", head_goes_back, true},
    {"a head before the first", head_is_none, true},
};

/* The server first receives what the peer has sent. Then the peer writes the invalid value, while it holds its
 * context's lock, until the server has logged it. Another thread of the peer may overwrite the value between two
 * attempts. */
static void lie_until_seen(const struct lie *lie)
{
    while (lines_of_lies() == 0) {
        soft_lock(scene.raw.id->verbs);
        tail_at(liar()->out.at);
        soft_unlock(scene.raw.id->verbs);
        inbox_pump(&scene.box, 0);
        if (lie->to_sender)
            (void)exs_send(scene.server, "a", 1, EXS_UNSIGNALED, NULL, NULL,
                           NULL); /* now the server reads the head */
        soft_lock(scene.raw.id->verbs);
        lie->tell();
        soft_unlock(scene.raw.id->verbs);
        must(fds_flag(liar()->wakefd->fd, true) ? 0 : -1);
        inbox_pump(&scene.box, 0);
    }
}

START_TEST(a_lie_ends_the_connection)
{
    const struct lie *lie = &lies[_i / 2];
    enum doing doing = _i % 2 ? RECEIVING : IDLE;

    begin();
    scene_do(doing);
    lie_until_seen(lie);
    scene_undone(doing);
    scene_broken();
    scene_close();
    ck_assert_int_eq(lines_of_lies(), 1);
}
END_TEST

/* ---- Values without an effect -------------------------------------------------------------------------- */

/* Flags of any value, spurious writes to the eventfd, and invalid packets. */
START_TEST(other_lies_do_not_matter)
{
    begin();
    for (uint32_t i = 0; i < 100; i++) {
        struct shm_peer *peer = liar();
        size_t limit;
        uint8_t *at;

        soft_lock(scene.raw.id->verbs);
        at = shm_ring_room(&peer->out, 4096, &limit);
        ck_assert_ptr_nonnull(at);
        memset(at, (int)i * 37, 4096);
        shm_ring_put(&peer->out, 4096, 1 + i * i, 0);
        atomic_store(&peer->in.control->sleeps, i * 0x01010101u);
        atomic_store(&peer->in.control->wants_room, ~i);
        atomic_store(&peer->out.control->sleeps, i << 16);
        atomic_store(&peer->out.control->wants_room, i);
        soft_unlock(scene.raw.id->verbs);
        must(fds_flag(peer->wakefd->fd, true) ? 0 : -1);
        inbox_pump(&scene.box, 0);
    }
    scene_alive();
    scene_close();
    ck_assert_int_eq(lines_of_lies(), 0);
}
END_TEST

/* Random values anywhere in the memory, while the server polls. */
START_TEST(scribbles_end_it_at_worst)
{
    struct chance chance = chance_new();

    begin();
    scene_do(RECEIVING);
    for (int round = 0; round < ROUNDS; round++) {
        struct shm_area *area = liar()->area;

        for (int i = 0; i < SCRIBBLES; i++) {
            bool in_control = chance_below(&chance, 4) == 0;
            size_t words = in_control ? sizeof area->control / 4 : sizeof *area / 4;
            _Atomic uint32_t *word = (_Atomic uint32_t *)(void *)area + chance_below(&chance, words);

            atomic_store_explicit(word, (uint32_t)chance_next(&chance) >> chance_below(&chance, 32),
                                  memory_order_relaxed);
        }
        must(fds_flag(liar()->wakefd->fd, true) ? 0 : -1);
        inbox_pump(&scene.box, 0);
    }
    raw_disconnect(&scene.raw);
    scene_undone(RECEIVING);
    scene_close();
    ck_assert_int_le(lines_of_lies(), 2); /* the peer may find invalid values, too */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("liar");
    TCase *words = add_bare_case(suite, "words", 20), *more = add_bare_case(suite, "more", 20);

    if (on_rdma())
        return 0; /* a NIC shares no memory */
    tcase_add_loop_test(words, a_lie_ends_the_connection, 0, 2 * COUNT(lies));
    tcase_add_test(more, other_lies_do_not_matter);
    tcase_add_test(more, scribbles_end_it_at_worst);
    return run_suite(suite);
}
