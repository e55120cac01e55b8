/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_setup.c - exchanges descriptors over the listener's unix sockets, and checks credentials: shm_setup.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include "core/base/fds.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "shm_setup.h"
#include "shm_pass.h"
#include "shm_sealed.h"
#include "slow_close.h"

#define MAGIC 0x4558536au /* changes with the layout of the message or the memory */
#define FIRST_ROOM 16
#define VISITS 128 /* maximum clients that one shm_setup_look() accepts */
#define CHECKS 64  /* waiting clients that see_out() checks at a time */

/* The client's message, sent with the descriptors of its memory, its eventfd and, if it has one, its bitmap. The
 * listener answers with a message that has only `slot`, and the descriptors of its eventfd and bitmap. */
struct greeting {
    uint32_t magic, mtu, ring_bytes, area_bytes;
    uint32_t slot; /* the slot that the receiver gets in the sender's bitmap; NO_SLOT: there is no bitmap */
    uint8_t token[SHM_TOKEN];
};

#define NO_SLOT UINT32_MAX

/* Sets *why, with errno. Returns NULL. */
static struct shm_peer *refuse_setup(struct shm_refusal *why, const char *what)
{
    *why = (struct shm_refusal){what, errno};
    return NULL;
}

/* ---- Memory ---- */

static struct shm_peer *make_peer(struct shm_slots *slots, int memory, bool maker)
{
    struct shm_area *area = shm_sealed_map(memory, sizeof *area);
    struct shm_peer *peer = area == NULL ? NULL : shm_peer_new(slots, area, maker);

    if (area != NULL && peer == NULL)
        munmap(area, sizeof *area);
    return peer;
}

/* Whether the context can have one more peer, and has an eventfd; *slots: of which the peer will get a slot. Sets
 * errno. */
static bool may_have_another(struct shm *shm, struct shm_slots **slots)
{
    int error;

    soft_lock(shm->context);
    error = shm_prepare(shm);
    *slots = shm->slots;
    soft_unlock(shm->context);
    errno = error;
    return error == 0;
}

/* ---- Eventfds and bitmaps ---- */

static uint32_t slot_of(const struct shm_peer *peer)
{
    return peer->slots == NULL ? NO_SLOT : (uint32_t)peer->slot;
}

/* Stores the descriptors that the peer needs to notify this context in `fds`. Returns their number. */
static size_t add_call(const struct shm *shm, const struct shm_peer *peer, int *fds)
{
    fds[0] = shm->wakefd;
    if (peer->slots == NULL)
        return 1;
    fds[1] = peer->slots->memory;
    return 2;
}

/* Takes over the descriptors that the peer sent: an eventfd, and a bitmap if it names a slot. False and errno: both
 * stay the caller's. */
static bool take_call(struct shm_peer *peer, const int fds[2], uint32_t slot)
{
    bool has_bitmap = fds[1] != -1;

    errno = EPROTO;
    if (has_bitmap != (slot != NO_SLOT) || (has_bitmap && slot >= SHM_SLOTS))
        return false;
    if (has_bitmap && (peer->bitmap = shm_bitmap_map(fds[1])) == NULL)
        return false;
    peer->wakefd = shm_wakefd_take(fds[0]);
    if (peer->wakefd == NULL)
        return false;
    if (has_bitmap)
        fds_close(fds[1]);
    peer->slot_there = slot;
    return true;
}

/* ---- The side that listens ---- */

struct shm_setup *shm_setup_open(const union soft_addr *local)
{
    struct shm_setup *setup;

    if (!settings()->shm || (setup = calloc(1, sizeof *setup)) == NULL)
        return NULL;
    if (shm_listeners_open(setup->listeners, local) > 0)
        return setup;
    (errno == EADDRINUSE ? xs_warn : xs_log)("this listener cannot offer shared memory: %s", strerror(errno));
    free(setup);
    return NULL;
}

void shm_setup_close(struct shm_setup *setup)
{
    shm_listeners_close(setup->listeners);
    for (unsigned i = 0; i < setup->count; i++)
        fds_close(setup->guests[i].fd);
    free(setup->guests);
    free(setup);
}

/* Removes a client. Returns its socket, which the caller then owns. */
static int remove_guest(struct shm_setup *setup, unsigned at)
{
    int fd = setup->guests[at].fd;

    setup->count--;
    memmove(setup->guests + at, setup->guests + at + 1, (setup->count - at) * sizeof *setup->guests);
    return fd;
}

/* Makes space for one more client; at the maximum, closes the oldest one. False: there is no memory. */
static bool has_room(struct shm_setup *setup)
{
    unsigned more = setup->room == 0 ? FIRST_ROOM : 2 * setup->room;
    struct shm_guest *guests;

    if (setup->count < setup->room)
        return true;
    if (setup->room == SHM_GUESTS) {
        fds_close(remove_guest(setup, 0));
        return true;
    }
    guests = realloc(setup->guests, more * sizeof *guests);
    if (guests == NULL)
        return false;
    setup->guests = guests;
    setup->room = more;
    return true;
}

/* Accepts a connection from one of the listening sockets. -1: there is none. */
static int take_visitor(const struct shm_setup *setup)
{
    int fd = -1;

    for (int i = 0; i < SHM_LISTENERS && fd == -1; i++)
        if (setup->listeners[i].fd != -1)
            fd = fds_own_private(accept4(setup->listeners[i].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    return fd;
}

/* Accepts the next client, and closes it if it is another user's. False: there is none, or no memory for it. */
static bool let_in(struct shm_setup *setup)
{
    int fd;

    if (!slow_close_has_room() || !has_room(setup) || (fd = take_visitor(setup)) == -1)
        return false;
    if (shm_pass_is_ours(fd))
        setup->guests[setup->count++] = (struct shm_guest){.fd = fd};
    else
        slow_close(fd);
    return true;
}

/* Drops clients that have hung up: their requests never arrive, and the descriptors that they sent would stay in the
 * sockets' receive queues. Checks CHECKS of them each time, so that many waiting clients do not slow down each
 * request. */
static void see_out(struct shm_setup *setup)
{
    struct pollfd look[CHECKS];
    unsigned first = setup->checked < setup->count ? setup->checked : 0, count = setup->count - first;

    if (count > CHECKS)
        count = CHECKS;
    for (unsigned i = 0; i < count; i++)
        look[i] = (struct pollfd){.fd = setup->guests[first + i].fd};
    setup->checked = first + count;
    if (count == 0 || poll(look, count, 0) <= 0)
        return;
    while (count-- > 0)
        if (look[count].revents & POLLHUP) {
            fds_close(remove_guest(setup, first + count));
            setup->checked--;
        }
}

void shm_setup_look(struct shm_setup *setup)
{
    for (int i = 0; i < VISITS && let_in(setup); i++)
        ;
    see_out(setup);
}

/* Reads the token of a client's message, which may not have arrived yet. False: it has hung up, or sent another
 * message. */
static bool learn_token(struct shm_guest *guest)
{
    struct greeting greeting;
    ssize_t got;

    if (guest->has_token)
        return true;
    got = recv(guest->fd, &greeting, sizeof greeting, MSG_PEEK | MSG_DONTWAIT);
    if (got == -1 && (errno == EAGAIN || errno == EINTR))
        return true;
    guest->has_token = got == sizeof greeting;
    if (guest->has_token)
        memcpy(guest->token, greeting.token, SHM_TOKEN);
    return guest->has_token;
}

/* Removes the client with this token, from index `first` on, and returns its socket. -1: there is none. */
static int find_from(struct shm_setup *setup, unsigned first, const uint8_t token[SHM_TOKEN])
{
    for (unsigned i = first; i < setup->count; i++) {
        struct shm_guest *guest = &setup->guests[i];

        if (!learn_token(guest))
            fds_close(remove_guest(setup, i--));
        else if (guest->has_token && memcmp(guest->token, token, SHM_TOKEN) == 0)
            return remove_guest(setup, i);
    }
    return -1;
}

/* A client sends its memory before its request, so it is on the list, or in the backlog of a listening socket. */
int shm_setup_find(struct shm_setup *setup, const uint8_t token[SHM_TOKEN])
{
    int found = find_from(setup, 0, token);

    for (int i = 0; i < SHM_LISTENERS * SHM_GUESTS && found == -1 && let_in(setup); i++)
        if (setup->count > 0)
            found = find_from(setup, setup->count - 1, token);
    see_out(setup);
    return found;
}

static bool is_our_greeting(const struct greeting *greeting)
{
    errno = EPROTO;
    return greeting->magic == MAGIC && greeting->mtu == SHM_MTU && greeting->ring_bytes == SHM_RING_BYTES &&
           greeting->area_bytes == sizeof(struct shm_area);
}

/* Makes a peer from the client's descriptors. NULL and errno: the descriptors stay the caller's. */
static struct shm_peer *take_in(struct shm_slots *slots, const int fds[3], const struct greeting *greeting)
{
    struct shm_peer *peer = is_our_greeting(greeting) ? make_peer(slots, fds[0], false) : NULL;
    int error;

    if (peer == NULL || take_call(peer, fds + 1, greeting->slot))
        return peer;
    error = errno;
    shm_peer_free(peer);
    errno = error;
    return NULL;
}

static bool send_answer(const struct shm *shm, const struct shm_peer *peer, int guest)
{
    uint32_t slot = slot_of(peer);
    int fds[2];
    size_t count = add_call(shm, peer, fds);

    return shm_pass_send(guest, &slot, sizeof slot, fds, count);
}

struct shm_peer *shm_accept(struct shm *shm, int guest, struct shm_refusal *why)
{
    struct shm_slots *slots;
    struct shm_peer *peer;
    struct greeting greeting;
    int fds[3]; /* memory, eventfd, bitmap */

    if (!may_have_another(shm, &slots) || !shm_pass_receive(guest, &greeting, sizeof greeting, fds, 2, 3))
        return refuse_setup(why, "what the peer offers can't be taken");
    peer = take_in(slots, fds, &greeting);
    if (peer == NULL) {
        (void)refuse_setup(why, "the peer's memory can't be used");
        shm_pass_close(fds, 3);
        return NULL;
    }
    shm_pass_close(fds, 1);
    if (send_answer(shm, peer, guest))
        return peer;
    (void)refuse_setup(why, "the peer's memory can't be used");
    shm_peer_free(peer);
    return NULL;
}

/* ---- The side that connects ---- */

static bool send_greeting(const struct shm *shm, const struct shm_peer *peer, const uint8_t token[SHM_TOKEN])
{
    int fds[3] = {peer->memory};
    size_t count = 1 + add_call(shm, peer, fds + 1);
    struct greeting greeting = {.magic = MAGIC,
                                .mtu = SHM_MTU,
                                .ring_bytes = SHM_RING_BYTES,
                                .area_bytes = sizeof(struct shm_area),
                                .slot = slot_of(peer)};

    memcpy(greeting.token, token, SHM_TOKEN);
    return shm_pass_send(peer->setup, &greeting, sizeof greeting, fds, count);
}

struct shm_peer *shm_offer(struct shm *shm, const union soft_addr *remote, uint8_t token[SHM_TOKEN],
                           struct shm_refusal *why)
{
    struct shm_peer *peer = NULL;
    struct shm_slots *slots;
    int setup = -1, memory = -1;

    errno = slow_close_has_room() ? ECONNREFUSED : EBUSY;
    if (settings()->shm && errno != EBUSY)
        setup = shm_listener_visit(remote);
    if (setup == -1)
        return refuse_setup(why, errno == EPERM ? "another user has the listener's name for memory"
                                                : "no process of this user listens there on this host");
    if (may_have_another(shm, &slots) && getrandom(token, SHM_TOKEN, GRND_NONBLOCK) == SHM_TOKEN &&
        (memory = shm_sealed_make(sizeof(struct shm_area))) != -1)
        peer = make_peer(slots, memory, true);
    if (peer != NULL) {
        peer->setup = setup;
        peer->memory = memory;
        peer->spare = fds_own(fcntl(memory, F_DUPFD_CLOEXEC, 0));
        if (peer->spare != -1 && send_greeting(shm, peer, token))
            return peer;
    }
    (void)refuse_setup(why, "no memory can be offered");
    if (peer != NULL) {
        shm_peer_free(peer);
        return NULL;
    }
    shm_pass_close(&memory, 1);
    shm_pass_close(&setup, 1);
    return NULL;
}

/* First closes the descriptor of the memory, which is mapped, and the spare one: two descriptors are then free for the
 * listener's eventfd and bitmap, also at the process's limit. */
int shm_accepted(struct shm_peer *peer)
{
    uint32_t slot;
    int fds[2], error = 0;

    shm_pass_close((int[]){peer->memory, peer->spare}, 2);
    peer->memory = peer->spare = -1;
    if (!shm_pass_receive(peer->setup, &slot, sizeof slot, fds, 1, 2)) {
        error = errno;
    } else if (!take_call(peer, fds, slot)) {
        error = errno;
        shm_pass_close(fds, 2);
    }
    shm_pass_close(&peer->setup, 1);
    peer->setup = -1;
    return error;
}
