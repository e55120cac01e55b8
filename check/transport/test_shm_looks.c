/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_shm_looks.c - how a context polls the rings of its peers in shared memory (shm.h): of peers without a slot at
 * each poll, of others after they have set their bit in the notification bitmap.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "check/support/endpoints.h"
#include "core/base/poll_state.h"
#include "core/base/fds.h"
#include "core/base/settings.h"
#include "soft/link/shm_setup.h"
#include "soft/service/home.h"
#include "soft/verbs/verbs.h"

enum { PEERS = 40 };

static struct soft_home *here, *there;
static struct shm_setup *setup;
static struct shm_peer *near[PEERS], *far[PEERS]; /* the two ends of each connection */

static struct sockaddr_in free_address(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&any, &length), 0);
    return any; /* the socket stays open, so no other process gets the port */
}

static union soft_addr address;

static void meet(struct shm_peer **one, struct shm_peer **other)
{
    uint8_t token[SHM_TOKEN];
    struct shm_refusal why;
    int guest;

    ck_assert_ptr_nonnull(*one = shm_offer(&here->shm, &address, token, &why));
    guest = shm_setup_find(setup, token);
    ck_assert_int_ne(guest, -1);
    ck_assert_ptr_nonnull(*other = shm_accept(&there->shm, guest, &why));
    close(guest);
    ck_assert_int_eq(shm_accepted(*one), 0);
    shm_assign(&here->shm, *one);
    shm_assign(&there->shm, *other);
    shm_join(*one);
    shm_join(*other);
}

static void look(struct soft_home *home)
{
    soft_lock(home->context);
    shm_receive(&home->shm, true, true);
    soft_unlock(home->context);
}

/* By this poll or an earlier one of the service thread. */
static bool is_taken(const struct shm_peer *from)
{
    return atomic_load(&from->out.control->head) == from->out.at;
}

static void begin_looks(void)
{
    ck_assert_int_eq(setenv("EXS_LINK", "shm", 1), 0);
    settings_read(NULL);
    address = (union soft_addr){.in = free_address()};
    ck_assert_ptr_nonnull(here = home_open());
    ck_assert_ptr_nonnull(there = home_open());
    ck_assert_ptr_nonnull(setup = shm_setup_open(&address));
    for (int i = 0; i < PEERS; i++)
        meet(&near[i], &far[i]);
    look(here);
    look(there);
}

static void leave(struct soft_home *home, struct shm_peer *peer)
{
    soft_lock(home->context);
    peer->link.leave(&peer->link);
    soft_unlock(home->context);
}

static void end_looks(void)
{
    for (int i = 0; i < PEERS; i++) {
        leave(here, near[i]);
        leave(there, far[i]);
    }
    shm_setup_close(setup);
    ck_assert_uint_eq(here->shm.count, 0);
    home_close(here);
    home_close(there);
}

/* Puts a packet that no queue pair accepts into the ring, without notifying the peer. */
static void put(struct shm_peer *from)
{
    size_t limit;
    uint8_t *at = shm_ring_room(&from->out, 64, &limit);

    ck_assert_ptr_nonnull(at);
    memset(at, 0, 64);
    shm_ring_put(&from->out, 64, 64, 0);
}

/* The first few peers have no slot; while a connection is set up, both of its ends count. */
START_TEST(with_many_peers_there_are_slots)
{
    for (int i = 0; i < PEERS; i++) {
        expect(i >= SHM_UNSLOTTED / 2 || (near[i]->slots == NULL && far[i]->slots == NULL),
               "peer %d has a slot", i);
        expect(i < SHM_UNSLOTTED || (near[i]->slots != NULL && far[i]->slots != NULL), "peer %d has no slot",
               i);
        ck_assert_int_eq(far[i]->bitmap != NULL, near[i]->slots != NULL);
        ck_assert_int_eq(near[i]->bitmap != NULL, far[i]->slots != NULL);
        if (near[i]->slots != NULL)
            ck_assert_uint_eq(far[i]->slot_there, (unsigned)near[i]->slot);
        if (far[i]->slots != NULL)
            ck_assert_uint_eq(near[i]->slot_there, (unsigned)far[i]->slot);
    }
}
END_TEST

/* Sends through the link, which notifies the peer at the end of a pass. */
static void put_and_call(struct shm_peer *from)
{
    size_t limit;
    uint8_t *at;

    soft_lock(here->context);
    ck_assert_ptr_nonnull(at = from->link.room(&from->link, 64, &limit));
    memset(at, 0, 64);
    from->link.send(&from->link, NULL, at, 64, 64);
    shm_sent(&here->shm);
    soft_unlock(here->context);
}

START_TEST(whoever_calls_is_looked_at)
{
    for (int round = 0; round < 3 * PEERS; round++) {
        struct shm_peer *from = near[round * 7 % PEERS];

        put_and_call(from);
        look(there);
        ck_assert(is_taken(from));
    }
}
END_TEST

static bool is_rung(struct soft_home *home)
{
    struct pollfd wakefd = {.fd = home->shm.wakefd, .events = POLLIN};

    return poll(&wakefd, 1, 0) == 1;
}

static bool is_flush_wanted(struct ibv_context *context)
{
    return atomic_load(&soft_poll_state(context)->flush_wanted);
}

static bool is_flag_up(const struct shm_peer *from)
{
    return atomic_load(&from->out.control->sleeps) != 0;
}

/* A context that busy-polls clears its need-wakeup flags, and its peers do not write the eventfd. When it says that it
 * will sleep, it sets the flags, and is woken for what arrived in the meantime. The service thread is suspended. */
START_TEST(who_polls_is_not_rung_for)
{
    struct ibv_cq *cq = soft_create_cq(there->context, 4, NULL, NULL, 0);
    struct ibv_wc wc;

    ck_assert_ptr_nonnull(cq);
    service_suspend(&there->service);
    look(there);
    ck_assert(is_flag_up(near[0]) && !is_rung(there));
    put_and_call(near[0]);
    ck_assert(is_rung(there));
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0); /* the second empty poll clears the flags */
    ck_assert(is_taken(near[0]) && !is_flag_up(near[0]));
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    ck_assert(is_rung(there));
    ck_assert(is_flush_wanted(there->context));
    soft_stop_polling(there->context, true);
    ck_assert(is_flag_up(near[0]) && !is_flush_wanted(there->context));
    look(there); /* reads the eventfd */
    ck_assert(!is_rung(there));
    put_and_call(near[PEERS - 1]); /* a peer with a slot writes the eventfd each time */
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    ck_assert(is_taken(near[PEERS - 1]) && is_flag_up(near[PEERS - 1]));
    look(there);

    put(near[0]); /* the packet is polled before its sender writes the eventfd */
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0); /* the second empty poll clears the flags */
    ck_assert(is_taken(near[0]) && !is_flag_up(near[0]));
    put_and_call(near[0]);
    ck_assert(!is_rung(there));
    soft_stop_polling(there->context, true);
    ck_assert(is_flag_up(near[0]) && is_rung(there) && !is_flush_wanted(there->context));
    look(there);
    ck_assert(is_taken(near[0]) && !is_rung(there));
    put_and_call(near[0]);
    ck_assert(is_rung(there));
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    ck_assert(!is_flag_up(near[0]));
    soft_stop_polling(there->context, false);
    ck_assert(is_flag_up(near[0]));
    service_resume(&there->service);
    ck_assert_int_eq(soft_destroy_cq(cq), 0);
}
END_TEST

static size_t fill_ring(struct shm_peer *from)
{
    size_t limit, bytes = 0;
    uint8_t *at;

    while ((at = shm_ring_room(&from->out, SHM_MTU, &limit)) != NULL) {
        memset(at, 0, SHM_MTU);
        shm_ring_put(&from->out, SHM_MTU, SHM_MTU, 0);
        bytes += SHM_MTU;
    }
    ck_assert(shm_ring_needs_notify(&from->out));
    if (from->bitmap != NULL)
        shm_bitmap_notify(from->bitmap, from->slot_there);
    return bytes;
}

/* A poll returns to the application before the ring is empty, so that the application and the peer work in parallel.
 * The context writes its own eventfd for the rest only when it says that it will sleep. */
START_TEST(who_polls_takes_a_part)
{
    struct ibv_cq *cq = soft_create_cq(there->context, 4, NULL, NULL, 0);
    struct shm_peer *from = near[_i ? PEERS - 1 : 0];
    struct ibv_wc wc;

    service_suspend(&there->service);
    look(there);
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    ck_assert_uint_gt(fill_ring(from), SHM_RING_BYTES / 2);
    uint64_t before = atomic_load(&from->out.control->head);
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    uint64_t taken = atomic_load(&from->out.control->head) - before;
    ck_assert(taken >= SHM_RING_BYTES / 8 && taken < SHM_RING_BYTES / 8 + 2 * SHM_MTU);
    ck_assert(!is_rung(there) && is_flush_wanted(there->context));
    soft_stop_polling(there->context, true);
    ck_assert(is_rung(there));
    while (is_rung(there))
        look(there);
    ck_assert(is_taken(from) && is_flag_up(from));
    service_resume(&there->service);
    ck_assert_int_eq(soft_destroy_cq(cq), 0);
}
END_TEST

/* The cost of a poll depends on the packets: the ring of a peer with a slot that has not set its bit is not polled. */
START_TEST(others_are_not_looked_at)
{
    put(near[PEERS - 1]);
    put(near[0]); /* a peer without a slot */
    look(there);
    ck_assert(is_taken(near[0]) && !is_taken(near[PEERS - 1]));
    shm_bitmap_notify(near[PEERS - 1]->bitmap, near[PEERS - 1]->slot_there);
    look(there);
    ck_assert(is_taken(near[PEERS - 1]));
}
END_TEST

/* The eventfd was written, but another thread has cleared the bit, or the peer did not set it: all rings are polled. */
START_TEST(a_wakefd_without_a_bit_has_all_looked_at)
{
    put(near[PEERS - 1]);
    put(near[PEERS / 2]);
    ck_assert(fds_flag(near[PEERS / 2]->wakefd->fd, true));
    look(there);
    ck_assert(is_taken(near[PEERS / 2]) && is_taken(near[PEERS - 1]));
}
END_TEST

/* After an invalid value all rings are polled, too, and the eventfd works as before. */
START_TEST(a_wakefd_may_say_any_number)
{
    static const uint64_t numbers[] = {(UINT64_C(1) << 63) + 1000, UINT64_C(1) << 63, UINT64_MAX - 1};

    service_suspend(&there->service);
    look(there);
    put(near[PEERS - 1]);
    ck_assert_int_eq(write(near[PEERS / 2]->wakefd->fd, &numbers[_i], sizeof numbers[_i]), sizeof numbers[_i]);
    look(there);
    ck_assert(is_taken(near[PEERS - 1]));
    ck_assert_int_eq(there->shm.owed, 0);
    put(near[PEERS - 1]);
    ck_assert(fds_flag(near[PEERS / 2]->wakefd->fd, true));
    look(there);
    ck_assert(is_taken(near[PEERS - 1]));
    service_resume(&there->service);
}
END_TEST

/* Bits of unused slots, or of peers without packets, only cost a poll of the ring. */
START_TEST(any_bit_may_be_set)
{
    for (int i = 0; i < SHM_SLOTS / 64; i++)
        atomic_store(&far[SHM_UNSLOTTED]->slots->bitmap->calls[i], UINT64_MAX);
    for (int i = 0; i < SHM_SLOTS / 64 / 64; i++)
        atomic_store(&far[SHM_UNSLOTTED]->slots->bitmap->sums[i], UINT64_MAX);
    look(there);
    put(near[PEERS - 1]);
    shm_bitmap_notify(near[PEERS - 1]->bitmap, near[PEERS - 1]->slot_there);
    look(there);
    ck_assert(is_taken(near[PEERS - 1]));
}
END_TEST

/* The receiver publishes its position when there is nothing else to do, or when it says that it will sleep; not for
 * each batch. */
START_TEST(who_polls_tells_later_what_it_has_taken)
{
    struct ibv_cq *cq = soft_create_cq(there->context, 4, NULL, NULL, 0);
    struct ibv_wc wc;

    service_suspend(&there->service);
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    for (int i = 0; i < 3; i++) {
        uint64_t before = near[0]->out.at;

        put(near[0]);
        ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
        ck_assert_uint_eq(atomic_load(&near[0]->out.control->head), before);
        if (i == 0)
            ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
        else if (i == 1)
            soft_stop_polling(there->context, true);
        else
            look(there); /* as in the service thread */
        ck_assert(is_taken(near[0]));
    }
    service_resume(&there->service);
    ck_assert_int_eq(soft_destroy_cq(cq), 0);
}
END_TEST

/* A sender whose ring is full of small batches gets all of the space that is freed, and is woken for it. */
START_TEST(who_waits_for_room_gets_all_of_it)
{
    struct ibv_cq *cq = soft_create_cq(there->context, 4, NULL, NULL, 0);
    struct ibv_wc wc;
    size_t limit;

    service_suspend(&there->service);
    service_suspend(&here->service);
    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    soft_lock(here->context);
    while (near[0]->link.room(&near[0]->link, 64, &limit) != NULL)
        near[0]->link.send(&near[0]->link, NULL, NULL, 64, 64);
    soft_unlock(here->context);
    ck_assert(near[0]->link.full);
    for (unsigned i = 0; i < SHM_RING_BYTES / 64 && !is_taken(near[0]); i++)
        ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
    ck_assert(is_taken(near[0]) && is_rung(here));
    look(here);
    ck_assert(!near[0]->link.full);
    service_resume(&here->service);
    service_resume(&there->service);
    ck_assert_int_eq(soft_destroy_cq(cq), 0);
}
END_TEST

/* A receiver that publishes a position beyond the sender's own is detected by the next poll, even if the sender needs
 * no space. */
START_TEST(a_lie_about_room_is_found)
{
    put(near[0]);
    look(there);
    look(here);
    ck_assert(!near[0]->failed);
    atomic_store(&near[0]->out.control->head, near[0]->out.at + 64);
    look(here);
    ck_assert(near[0]->failed);
}
END_TEST

/* One peer cannot take all of the time of a poll. */
START_TEST(a_peer_that_never_ends_keeps_nobody_waiting)
{
    const size_t length = SHM_MTU;
    int looks = 0;

    for (int i = PEERS - 2; i < PEERS; i++)
        fill_ring(near[i]);
    while (atomic_load(&near[PEERS - 1]->out.control->head) == 0 && looks++ < 10) {
        size_t limit;
        uint8_t *at;

        look(there);
        /* The ring is full at each poll. */
        while ((at = shm_ring_room(&near[PEERS - 2]->out, length, &limit)) != NULL)
            shm_ring_put(&near[PEERS - 2]->out, length, length, 0);
    }
    ck_assert_int_le(looks, 2);
}
END_TEST

START_TEST(there_is_a_limit)
{
    uint8_t token[SHM_TOKEN];
    struct shm_refusal why;

    here->shm.most = PEERS;
    ck_assert_ptr_null(shm_offer(&here->shm, &address, token, &why));
    ck_assert_int_eq(why.error, EUSERS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm looks");
    TCase *looks = new_case(suite, "looks");

    tcase_add_checked_fixture(looks, begin_looks, end_looks);
    tcase_add_test(looks, with_many_peers_there_are_slots);
    tcase_add_test(looks, whoever_calls_is_looked_at);
    tcase_add_test(looks, who_polls_is_not_rung_for);
    tcase_add_loop_test(looks, who_polls_takes_a_part, 0, 2);
    tcase_add_test(looks, who_polls_tells_later_what_it_has_taken);
    tcase_add_test(looks, who_waits_for_room_gets_all_of_it);
    tcase_add_test(looks, a_lie_about_room_is_found);
    tcase_add_test(looks, others_are_not_looked_at);
    tcase_add_test(looks, a_wakefd_without_a_bit_has_all_looked_at);
    tcase_add_loop_test(looks, a_wakefd_may_say_any_number, 0, 3);
    tcase_add_test(looks, any_bit_may_be_set);
    tcase_add_test(looks, a_peer_that_never_ends_keeps_nobody_waiting);
    tcase_add_test(looks, there_is_a_limit);
    return run_suite(suite);
}
