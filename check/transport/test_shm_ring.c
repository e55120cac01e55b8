/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_shm_ring.c - one direction of a shared-memory link: both ends in one thread, a malicious peer, and missing
 * memory.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "check/support/endpoints.h"
#include "core/base/copy.h"
#include "core/base/fds.h"
#include "soft/link/shm.h"

#define STRIDE 1000

/* A random number; the sequence is the same each time. */
static uint64_t state;

static size_t number(void)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(state >> 33);
}

static struct shm_area *area;
static struct shm_ring out, in;

static void begin(void)
{
    area = aligned_alloc(4096, sizeof *area);
    ck_assert_ptr_nonnull(area);
    memset(area, 0, sizeof *area);
    out = (struct shm_ring){.control = &area->control[0], .bytes = area->bytes[0]};
    in = out;
}

static void end_of_it(void)
{
    free(area);
}

/* Puts a batch of this length, all of one value. Returns false if there is no space. */
static bool put(size_t length, uint8_t value)
{
    size_t limit = 0;
    uint8_t *at = shm_ring_room(&out, length, &limit);
    if (at == NULL)
        return false;
    expect(at >= area->bytes[0] && at + limit <= area->bytes[0] + SHM_RING_BYTES && limit >= length,
           "room for %zu bytes is %zu at %td", length, limit, at - area->bytes[0]);
    memset(at, value, length);
    shm_ring_put(&out, length, STRIDE, 0);
    return true;
}

static bool take(size_t length, uint8_t value)
{
    struct shm_burst burst;
    if (!shm_ring_next(&in, &burst))
        return false;
    ck_assert_uint_eq(burst.length, length);
    ck_assert_uint_eq(burst.stride, STRIDE);
    for (size_t i = 0; i < length; i++)
        expect(burst.bytes[i] == value, "byte %zu is %u", i, burst.bytes[i]);
    shm_ring_taken(&in, &burst);
    return true;
}

/* Batches of all lengths, many times around the ring; the sender is faster until the ring is full, then the
 * receiver. */
START_TEST(bursts_come_as_they_were_put)
{
    enum { BURSTS = 4096 };
    static size_t lengths[BURSTS];
    unsigned first = 0, behind = 0, full = 0;
    state = 7;
    for (unsigned i = 0; i < 20000; i++) {
        size_t length = 1 + number() % (number() % 8 == 0 ? SOFT_BURST_LONG : 3000);
        if (put(length, (uint8_t)behind))
            lengths[behind++ % BURSTS] = length;
        else
            full++;
        ck_assert_uint_le(behind - first, BURSTS);
        for (size_t times = number() % (i / 2000 % 2 == 0 ? 2 : 4); times > 0 && first != behind;
             times--, first++)
            ck_assert(take(lengths[first % BURSTS], (uint8_t)first));
    }
    for (; first != behind; first++)
        ck_assert(take(lengths[first % BURSTS], (uint8_t)first));
    ck_assert(!take(0, 0) && !in.broken && !out.broken && full > 0);
}
END_TEST

/* An empty ring has space for the largest packet, at any position; and little traffic uses only the start of the
 * ring. */
START_TEST(an_empty_ring_has_room)
{
    for (size_t length = 1; length < 70000; length += 61) {
        size_t piece = length > SOFT_BURST_LONG ? SOFT_BURST_LONG : length;
        expect(put(piece, 1) && take(piece, 1), "%zu bytes into an empty ring at %zu", piece, (size_t)out.at);
        expect(put(SHM_MTU + 40, 2) && take(SHM_MTU + 40, 2), "a packet at %zu", (size_t)out.at);
    }
    end_of_it();
    begin();
    for (int i = 0; i < 100000; i++)
        ck_assert(put(100, 3) && take(100, 3));
    size_t clean = SHM_RING_BYTES / 2;
    while (clean < SHM_RING_BYTES && area->bytes[0][clean] == 0)
        clean++;
    ck_assert_uint_eq(clean, SHM_RING_BYTES);
}
END_TEST

/* When a receiver has emptied the ring, the sender may continue at the ring's start. The next batches must have space
 * there while the receiver has taken only one. */
START_TEST(an_emptied_ring_has_room_for_more)
{
    enum { MORE = 8 };
    for (size_t length = 1; length <= SHM_MTU + 40; length = 2 * length + 24) {
        for (int many = 1; many <= 100; many++) {
            for (int i = 0; i < many; i++)
                ck_assert(put(length, 4) && take(length, 4));
            for (int i = 0; i < MORE; i++)
                expect(put(length, 5), "%d of %zu bytes have no room after %d", i, length, many);
            for (int i = 0; i < MORE; i++)
                ck_assert(take(length, 5));
        }
    }
    ck_assert(!in.broken && !out.broken);
}
END_TEST

/* A sender that waits for space is woken once, when half of the ring is free; a receiver that sleeps is woken once, by
 * the first batch. */
START_TEST(flags_are_answered_once)
{
    size_t limit;
    struct shm_burst burst;
    unsigned full = 0, called = 0;
    shm_ring_sleep(&in);
    ck_assert_ptr_nonnull(shm_ring_room(&out, 100, &limit));
    shm_ring_put(&out, 100, STRIDE, 0);
    ck_assert(shm_ring_needs_notify(&out));
    ck_assert_ptr_nonnull(shm_ring_room(&out, 100, &limit));
    shm_ring_put(&out, 100, STRIDE, 0);
    ck_assert(!shm_ring_needs_notify(&out));
    ck_assert(shm_ring_was_notified(&in, &in.control->sleeps));
    ck_assert(!shm_ring_was_notified(&in, &in.control->sleeps));
    while (put(SHM_MTU, 5))
        full++;
    ck_assert_uint_gt(full, 10);
    shm_ring_want_room(&out);
    while (shm_ring_next(&in, &burst))
        called += shm_ring_taken(&in, &burst);
    ck_assert_uint_eq(called, 1);
    ck_assert(shm_ring_was_notified(&out, &out.control->wants_room));
    shm_ring_want_room(&out);
    ck_assert(!shm_ring_stay(&out, &out.control->wants_room)); /* the flag was not seen in the meantime */
}
END_TEST

/* The receiver publishes small amounts of free space together, or when asked. The sender reads the position when it
 * matters, so that it can send batches of full length. */
START_TEST(little_is_told_together)
{
    size_t limit = 0;
    unsigned unreported = 0;
    uint64_t head = 0;

    for (int i = 0; i < 1000; i++) {
        ck_assert(put(100, 6) && take(100, 6));
        unreported = atomic_load(&in.control->head) == head ? unreported + 1 : 0;
        head = atomic_load(&in.control->head);
        ck_assert_uint_lt(unreported, 64);
    }
    ck_assert(put(100, 6) && take(100, 6) && atomic_load(&in.control->head) != in.at);
    ck_assert(!shm_ring_tell(&in) && atomic_load(&in.control->head) == in.at);
    atomic_store(&in.control->head, 0);
    ck_assert(!shm_ring_tell(&in) && atomic_load(&in.control->head) == 0); /* only once */
    end_of_it();
    begin();
    out.populated = SHM_RING_BYTES; /* as after the first time around the ring */
    for (int i = 0; i < 1000; i++) {
        ck_assert(put(1 + number() % 3000, 7));
        in.at = out.at;
        shm_ring_tell(&in);
        ck_assert_ptr_nonnull(shm_ring_room(&out, 1, &limit));
        size_t end = SHM_RING_BYTES - out.at % SHM_RING_BYTES - SHM_HEADER;
        expect(limit >= 65536 || limit == end, "of an empty ring %zu bytes, at %zu", limit, (size_t)out.at);
    }
}
END_TEST

/* An acknowledgement is passed with its batch; an invalid word in its place breaks the ring. */
START_TEST(acknowledgements_come_with_bursts)
{
    const uint32_t acks[] = {0, SOFT_ACKED << SOFT_ACKED_SHIFT, SOFT_ACKED << SOFT_ACKED_SHIFT | 0xffffff};
    const uint32_t lies[] = {1, 0xffffff, 0x7fffffff, 0x81000000, UINT32_MAX};
    struct shm_burst burst;
    size_t limit;
    for (unsigned i = 0; i < sizeof acks / sizeof *acks; i++) {
        ck_assert_ptr_nonnull(shm_ring_room(&out, 100, &limit));
        shm_ring_put(&out, 100, STRIDE, acks[i]);
        ck_assert(shm_ring_next(&in, &burst) && burst.ack == acks[i]);
        shm_ring_taken(&in, &burst);
    }
    for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
        ck_assert_ptr_nonnull(shm_ring_room(&out, 100, &limit));
        shm_ring_put(&out, 100, STRIDE, lies[i]);
        ck_assert(!shm_ring_next(&in, &burst) && in.broken);
        in.broken = false;
        ck_assert(!shm_ring_next(&in, &burst) && in.broken);
        end_of_it();
        begin();
    }
}
END_TEST

/* ---- The eventfd ---- */

/* A peer, the eventfd that it reads, and the receiving end of its ring. */
static struct wakefd_world {
    struct service_member service;
    struct shm shm;
    struct shm_peer *peer;
} wakefds;

static void begin_wakefds(void)
{
    struct shm_area *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(shared, MAP_FAILED);
    atomic_store(&wakefds.service.state, SERVICE_WATCH); /* so that the link need not wake the service thread */
    shm_init(&wakefds.shm, NULL, &wakefds.service);
    wakefds.peer = shm_peer_new(NULL, shared, true);
    ck_assert_ptr_nonnull(wakefds.peer);
    wakefds.peer->shm = &wakefds.shm;
    wakefds.shm.count = 1;
    wakefds.peer->wakefd = shm_wakefd_take(fds_own(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)));
    ck_assert_ptr_nonnull(wakefds.peer->wakefd);
    in = (struct shm_ring){.control = wakefds.peer->out.control, .bytes = wakefds.peer->out.bytes};
}

static uint64_t rung(void)
{
    uint64_t times = 0;

    return read(wakefds.peer->wakefd->fd, &times, sizeof times) == sizeof times ? times : 0;
}

static void keep_to_one_processor(void)
{
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    ck_assert_int_eq(sched_setaffinity(0, sizeof here, &here), 0);
}

static void send_bursts(int count, size_t length)
{
    struct soft_link *link = &wakefds.peer->link;
    size_t limit;

    for (int i = 0; i < count; i++) {
        uint8_t *at = link->room(link, length, &limit);

        ck_assert_ptr_nonnull(at);
        link->send(link, NULL, at, length, length);
    }
}

/* For long batches the receiver publishes its CPU, so that the sender can choose how to copy; an invalid number counts
 * as another CPU. */
START_TEST(who_reads_elsewhere_is_told)
{
    begin_wakefds();
    struct soft_link *link = &wakefds.peer->link;
    struct shm_burst burst;

    keep_to_one_processor();
    send_bursts(1, COPY_LONG);
    ck_assert(!link->far); /* no batch has been received yet */
    ck_assert(shm_ring_next(&in, &burst));
    shm_ring_taken(&in, &burst);
    ck_assert_uint_eq(atomic_load(&in.control->processor), (uint32_t)sched_getcpu() + 1);
    send_bursts(1, COPY_LONG);
    ck_assert(!link->far);
    atomic_store(&in.control->processor, UINT32_MAX);
    send_bursts(1, COPY_LONG);
    ck_assert(link->far);
    send_bursts(1, COPY_LONG - 1);
    ck_assert(!link->far);
    while (shm_ring_next(&in, &burst))
        shm_ring_taken(&in, &burst);
    /* Each batch says which kind it was, and the receiver can ask for the other kind. */
    for (int i = 0; i < 4; i++) {
        bool far = i % 2 == 0;
        atomic_store(&in.control->processor, far ? UINT32_MAX : 0);
        in.pace.near = far;
        send_bursts(1, SHM_PACE_MIN);
        ck_assert(link->far == far);
        ck_assert(shm_ring_next(&in, &burst));
        ck_assert(shm_ring_went_far(&burst) == far);
        in.told = UINT32_MAX;
        shm_ring_taken(&in, &burst);
        ck_assert_uint_eq(atomic_load(&in.control->processor), far ? 0 : (uint32_t)sched_getcpu() + 1);
    }
    for (int i = 0; i < 4; i++) { /* the receiver asks for the copy's time while it measures */
        send_bursts(1, SHM_PACE_MIN);
        ck_assert(!link->far);
        ck_assert(shm_ring_next(&in, &burst));
        ck_assert_int_eq(shm_ring_took(&burst) > 0, i % 2 == 1);
        in.pace.compares = i % 2 == 0;
        shm_ring_taken(&in, &burst);
        ck_assert_int_eq((atomic_load(&in.control->processor) & SHM_TIMES) != 0, i % 2 == 0);
    }
    wakefds.peer->link.leave(&wakefds.peer->link);
}
END_TEST

/* The eventfd is written at the end of a pass, or after many bytes, and not for each batch; nor if the receiver does
 * not sleep. */
START_TEST(a_turn_rings_once)
{
    begin_wakefds();
    shm_ring_sleep(&in);
    send_bursts(5, 1000);
    ck_assert_uint_eq(rung(), 0);
    shm_sent(&wakefds.shm);
    ck_assert_uint_eq(rung(), 1);
    ck_assert(shm_ring_was_notified(&in, &in.control->sleeps));
    send_bursts(5, 1000);
    shm_sent(&wakefds.shm);
    ck_assert_uint_eq(rung(), 0);
    shm_ring_sleep(&in);
    send_bursts(40, 10000);
    ck_assert_uint_eq(rung(), 1);
    shm_sent(&wakefds.shm);
    shm_sent(&wakefds.shm);
    ck_assert_uint_eq(rung(), 0);
    wakefds.peer->link.leave(&wakefds.peer->link);
}
END_TEST

/* A peer that is freed in the middle of a pass has written the eventfd for its batches. */
START_TEST(who_leaves_has_rung)
{
    begin_wakefds();
    int wakefd = dup(wakefds.peer->wakefd->fd);
    uint64_t times = 0;

    shm_ring_sleep(&in);
    send_bursts(1, 1000);
    wakefds.peer->link.leave(&wakefds.peer->link);
    ck_assert_int_eq(read(wakefd, &times, sizeof times), sizeof times);
    ck_assert_uint_eq(times, 1);
    shm_sent(&wakefds.shm);
    close(wakefd);
}
END_TEST

static uint64_t edge(void)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     63,
                                     64,
                                     SHM_RING_BYTES - 64,
                                     SHM_RING_BYTES,
                                     SHM_RING_BYTES + 64,
                                     UINT32_MAX,
                                     UINT64_MAX,
                                     UINT64_MAX - 63,
                                     1ull << 63};
    uint64_t value = edges[number() % (sizeof edges / sizeof *edges)];
    return number() % 3 == 0 ? (uint64_t)number() << (number() % 48) : value;
}

/* All words that the receiver reads may be anything: the batches that it finds are within the ring, and come to an
 * end. */
START_TEST(a_lying_sender_is_found_out)
{
    unsigned broken = 0;
    state = 11;
    for (int world = 0; world < 20000; world++) {
        struct shm_burst burst;
        memset(&area->control[0], 0, sizeof area->control[0]);
        in = out = (struct shm_ring){.control = &area->control[0], .bytes = area->bytes[0]};
        for (int step = 0; step < 12; step++) {
            put(1 + number() % 5000, 9);
            if (number() % 3 == 0)
                area->control[0].tail = number() % 2 ? edge() : in.at + edge() % (2 * SHM_RING_BYTES);
            if (number() % 3 == 0) {
                uint64_t header = edge();
                memcpy(area->bytes[0] + in.at % SHM_RING_BYTES / 4 * 4, &header, 4);
                memcpy(area->bytes[0] + in.at % SHM_RING_BYTES / 4 * 4 + 4, &header, 4);
            }
            for (int i = 0; i < 100 && shm_ring_next(&in, &burst); i++) {
                expect(burst.bytes >= area->bytes[0] && burst.length > 0 && burst.stride > 0 &&
                           burst.bytes + burst.length <= area->bytes[0] + SHM_RING_BYTES,
                       "a burst of %zu at %td", burst.length, burst.bytes - area->bytes[0]);
                shm_ring_taken(&in, &burst);
            }
        }
        broken += in.broken;
        ck_assert(!in.broken || !shm_ring_next(&in, &burst));
    }
    expect_between(broken, 1000, 20000);
}
END_TEST

/* The same for the sender: the space that it gets is within the ring. */
START_TEST(a_lying_receiver_is_found_out)
{
    unsigned broken = 0;
    state = 13;
    for (int world = 0; world < 20000; world++) {
        memset(&area->control[0], 0, sizeof area->control[0]);
        out = (struct shm_ring){.control = &area->control[0], .bytes = area->bytes[0]};
        for (int step = 0; step < 40; step++) {
            if (number() % 4 == 0)
                area->control[0].head = number() % 2 ? edge() : out.at - edge() % SHM_RING_BYTES;
            put(1 + number() % SHM_MTU, 9);
        }
        broken += out.broken;
    }
    expect_between(broken, 1000, 20000);
}
END_TEST

/* ---- Memory ---- */

static int madvise_errno; /* errno of MADV_POPULATE_WRITE; 0: it succeeds */

/* Replaces the C library's function in this program. */
int madvise(void *start, size_t length, int advice)
{
    if (advice == MADV_POPULATE_WRITE && madvise_errno != 0) {
        errno = madvise_errno;
        return -1;
    }
    return (int)syscall(SYS_madvise, start, length, advice);
}

/* A ring in a memory file of this length: an access behind it raises SIGBUS, as if the kernel had no memory for the
 * page. */
static void begin_in_file(size_t bytes)
{
    int file = memfd_create("ring", MFD_CLOEXEC);

    begin();
    ck_assert_int_ne(file, -1);
    ck_assert_int_eq(ftruncate(file, (off_t)bytes), 0);
    out.bytes = mmap(NULL, SHM_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(out.bytes, MAP_FAILED);
    in.bytes = out.bytes;
    close(file);
}

static bool put_in_file(size_t length)
{
    size_t limit = 0;
    uint8_t *at = shm_ring_room(&out, length, &limit);

    if (at == NULL)
        return false;
    memset(at, 1, limit); /* the caller may write all of it */
    shm_ring_put(&out, length, STRIDE, 0);
    return true;
}

static size_t resident(void)
{
    unsigned char pages[SHM_RING_BYTES / 4096];
    size_t count = 0;

    ck_assert_int_eq(mincore(out.bytes, SHM_RING_BYTES, pages), 0);
    for (size_t i = 0; i < sizeof pages; i++)
        count += pages[i] & 1;
    return count * 4096;
}

/* Kernels before 5.14 do not know MADV_POPULATE_WRITE. */
static const int unknown[] = {0, EINVAL};

START_TEST(no_memory_breaks_the_ring)
{
    enum { THERE = 1 << 20 };
    size_t bytes = 0;

    madvise_errno = unknown[_i % 2];
    begin_in_file(THERE);
    while (put_in_file(_i / 2 == 0 ? 1000 : 65000))
        bytes += 1000;
    ck_assert(out.broken && out.has_no_memory);
    ck_assert_uint_gt(bytes, 0);
    ck_assert_uint_le(out.at, THERE);
    ck_assert_uint_le(out.populated, THERE);
    ck_assert_ptr_null(shm_ring_room(&out, 1, &bytes));
    munmap(out.bytes, SHM_RING_BYTES);
    end_of_it();
}
END_TEST

/* The header that sends the receiver to the ring's start needs memory, too. */
START_TEST(no_memory_for_a_skip)
{
    enum { THERE = 1 << 20 };
    size_t limit;

    madvise_errno = unknown[_i];
    begin_in_file(THERE);
    out.at = out.seen = THERE; /* all bytes so far were used, and are free again */
    out.populated = THERE;
    ck_assert_ptr_null(shm_ring_room(&out, 1000, &limit));
    ck_assert(out.broken && out.has_no_memory);
    munmap(out.bytes, SHM_RING_BYTES);
    end_of_it();
}
END_TEST

/* A connection with little traffic uses little memory. */
START_TEST(memory_follows_use)
{
    madvise_errno = unknown[_i];
    begin_in_file(SHM_RING_BYTES);
    ck_assert(put_in_file(100));
    ck_assert_uint_eq(resident(), 4096);
    while (out.at < 300000) {
        ck_assert(put_in_file(1000));
        ck_assert_uint_le(resident(), 2 * (out.at + 4096));
        ck_assert_uint_le(resident(), out.at + 4096 + 65536);
    }
    munmap(out.bytes, SHM_RING_BYTES);
    end_of_it();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm ring");
    TCase *plain = new_case(suite, "plain"), *lies = new_case(suite, "lies"),
          *memory = new_case(suite, "memory");
    tcase_add_checked_fixture(plain, begin, end_of_it);
    tcase_add_checked_fixture(lies, begin, end_of_it);
    tcase_add_test(plain, bursts_come_as_they_were_put);
    tcase_add_test(plain, an_empty_ring_has_room);
    tcase_add_test(plain, an_emptied_ring_has_room_for_more);
    tcase_add_test(plain, flags_are_answered_once);
    tcase_add_test(plain, little_is_told_together);
    tcase_add_test(plain, acknowledgements_come_with_bursts);
    tcase_add_test(plain, a_turn_rings_once);
    tcase_add_test(plain, who_reads_elsewhere_is_told);
    tcase_add_test(plain, who_leaves_has_rung);
    tcase_add_test(lies, a_lying_sender_is_found_out);
    tcase_add_test(lies, a_lying_receiver_is_found_out);
    tcase_set_timeout(plain, 60);
    tcase_set_timeout(lies, 60);
    tcase_add_loop_test(memory, no_memory_breaks_the_ring, 0, 4);
    tcase_add_loop_test(memory, no_memory_for_a_skip, 0, 2);
    tcase_add_loop_test(memory, memory_follows_use, 0, 2);
    tcase_set_timeout(memory, 60);
    return run_suite(suite);
}
