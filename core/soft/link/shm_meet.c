/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_meet.c - sockets, descriptors and credentials of shm_meet.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "core/fds.h"
#include "core/settings.h"
#include "shm_meet.h"
#include "shm_pass.h"
#include "shm_sealed.h"
#include "turn_out.h"

#define MAGIC 0x4558536au /* and of this layout, and what is in it */
#define BACKLOG 128

/* From whoever connects; the memory and the bell come with it, and the board where he has one. From whoever
 * listens only the number of a seat, with the bell and the board. */
struct greeting {
    uint32_t magic, mtu, ring_bytes, area_bytes;
    uint32_t seat; /* the other's; NO_SEAT: there is no board */
    uint8_t token[SHM_TOKEN];
};

#define NO_SEAT UINT32_MAX

/* By errno. Returns NULL. */
static struct shm_peer *refuse(struct shm_refusal *why, const char *what)
{
    *why = (struct shm_refusal){what, errno};
    return NULL;
}

/* ---- The socket ---- */

/* The name of an address and port; `any`: of all addresses. Returns the length. */
static socklen_t name(struct sockaddr_un *un, const union soft_addr *addr, bool any)
{
    char host[INET6_ADDRSTRLEN] = "*", text[64];
    const void *bytes = addr->sa.sa_family == AF_INET ? (const void *)&addr->in.sin_addr : &addr->in6.sin6_addr;

    if (!any)
        inet_ntop(addr->sa.sa_family, bytes, host, sizeof host);
    snprintf(text, sizeof text, "exs/%s/%d", host,
             ntohs(addr->in.sin_port)); /* at the same place in sockaddr_in6 */
    return shm_pass_address(un, text);
}

static int open_socket(void)
{
    return fds_own(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* ---- Memory ---- */

static struct shm_peer *make_peer(struct shm_seats *seats, int memory, bool maker)
{
    struct shm_area *area = shm_sealed_map(memory, sizeof *area);
    struct shm_peer *peer = area == NULL ? NULL : shm_peer_new(seats, area, maker);

    if (area != NULL && peer == NULL)
        munmap(area, sizeof *area);
    return peer;
}

/* Is there room for one more, and a bell? And where that one would have its seat. */
static bool may_have_another(struct shm *shm, struct shm_seats **seats)
{
    int error;

    soft_lock(shm->context);
    error = shm_prepare(shm);
    *seats = shm->seats;
    soft_unlock(shm->context);
    errno = error;
    return error == 0;
}

/* ---- Bells and boards ---- */

static uint32_t seat_of(const struct shm_peer *peer)
{
    return peer->seats == NULL ? NO_SEAT : (uint32_t)peer->seat;
}

/* What the peer needs to call us, behind `fds`. How many? */
static size_t add_call(const struct shm *shm, const struct shm_peer *peer, int *fds)
{
    fds[0] = shm->bell;
    if (peer->seats == NULL)
        return 1;
    fds[1] = peer->seats->memory;
    return 2;
}

/* What the peer sent: a bell, and a board if it names a seat there. False and errno: both are the caller's. */
static bool take_call(struct shm_peer *peer, const int fds[2], uint32_t seat)
{
    bool has_board = fds[1] != -1;

    errno = EPROTO;
    if (has_board != (seat != NO_SEAT) || (has_board && seat >= SHM_SEATS))
        return false;
    if (has_board && (peer->board = shm_board_map(fds[1])) == NULL)
        return false;
    peer->bell = shm_bell_take(fds[0]);
    if (peer->bell == NULL)
        return false;
    if (has_board)
        fds_close(fds[1]);
    peer->seat_there = seat;
    return true;
}

/* ---- The side that listens ---- */

struct shm_meeting *shm_meeting_open(const union soft_addr *local)
{
    struct shm_meeting *meeting;
    struct sockaddr_un un;
    socklen_t length = name(&un, local, soft_is_any(local));

    if (!settings()->shm || (meeting = calloc(1, sizeof *meeting)) == NULL)
        return NULL;
    meeting->fd = open_socket();
    if (meeting->fd != -1 && bind(meeting->fd, (struct sockaddr *)&un, length) == 0 &&
        listen(meeting->fd, BACKLOG) == 0)
        return meeting;
    if (settings()->debug)
        fprintf(stderr, "exs: connections to this listener go by udp because nobody can bring memory: %s\n",
                strerror(errno));
    shm_pass_close(&meeting->fd, 1);
    free(meeting);
    return NULL;
}

void shm_meeting_close(struct shm_meeting *meeting)
{
    turn_out_door(meeting->fd);
    shm_pass_close(meeting->guests, meeting->count);
    free(meeting);
}

static void remove_guest(struct shm_meeting *meeting, unsigned at)
{
    meeting->count--;
    memmove(meeting->guests + at, meeting->guests + at + 1, (meeting->count - at) * sizeof(int));
}

/* All that wait at the door, but not for ever. */
static void let_in(struct shm_meeting *meeting)
{
    for (int i = 0; i < BACKLOG && turn_out_has_room(); i++) {
        int guest = fds_own(accept4(meeting->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));

        if (guest == -1)
            return;
        if (!shm_pass_is_ours(guest)) {
            turn_out(guest);
            continue;
        }
        if (meeting->count == SHM_GUESTS) {
            shm_pass_close(meeting->guests, 1);
            remove_guest(meeting, 0);
        }
        meeting->guests[meeting->count++] = guest;
    }
}

/* Whoever has left again brings no request any more, and what he brought would stay with us. */
static void see_out(struct shm_meeting *meeting)
{
    struct pollfd look[SHM_GUESTS];
    unsigned count = meeting->count;

    for (unsigned i = 0; i < count; i++)
        look[i] = (struct pollfd){.fd = meeting->guests[i]};
    if (count == 0 || poll(look, count, 0) <= 0)
        return;
    while (count-- > 0)
        if (look[count].revents & POLLHUP) {
            shm_pass_close(&look[count].fd, 1);
            remove_guest(meeting, count);
        }
}

void shm_meeting_look(struct shm_meeting *meeting)
{
    let_in(meeting);
    see_out(meeting);
}

int shm_meeting_find(struct shm_meeting *meeting, const uint8_t token[SHM_TOKEN])
{
    int found = -1;

    let_in(meeting);
    for (unsigned i = 0; i < meeting->count && found == -1; i++) {
        struct greeting greeting;
        int guest = meeting->guests[i];
        ssize_t got = recv(guest, &greeting, sizeof greeting, MSG_PEEK | MSG_DONTWAIT);

        if (got != sizeof greeting) { /* gone again, or no guest of ours */
            shm_pass_close(&guest, 1);
            remove_guest(meeting, i--);
        } else if (memcmp(greeting.token, token, SHM_TOKEN) == 0) {
            remove_guest(meeting, i);
            found = guest;
        }
    }
    see_out(meeting);
    return found;
}

static bool is_our_greeting(const struct greeting *greeting)
{
    errno = EPROTO;
    return greeting->magic == MAGIC && greeting->mtu == SHM_MTU && greeting->ring_bytes == SHM_RING_BYTES &&
           greeting->area_bytes == sizeof(struct shm_area);
}

/* What the guest brought, mapped, and his to call. NULL and errno. */
static struct shm_peer *take_in(struct shm_seats *seats, const int fds[3], const struct greeting *greeting)
{
    struct shm_peer *peer = is_our_greeting(greeting) ? make_peer(seats, fds[0], false) : NULL;
    int error;

    if (peer == NULL || take_call(peer, fds + 1, greeting->seat))
        return peer;
    error = errno;
    shm_peer_free(peer);
    errno = error;
    return NULL;
}

static bool answer(const struct shm *shm, const struct shm_peer *peer, int guest)
{
    uint32_t seat = seat_of(peer);
    int fds[2];
    size_t count = add_call(shm, peer, fds);

    return shm_pass_send(guest, &seat, sizeof seat, fds, count);
}

struct shm_peer *shm_accept(struct shm *shm, int guest, struct shm_refusal *why)
{
    struct shm_seats *seats;
    struct shm_peer *peer;
    struct greeting greeting;
    int fds[3]; /* memory, bell, board */

    if (!may_have_another(shm, &seats) || !shm_pass_receive(guest, &greeting, sizeof greeting, fds, 2, 3))
        return refuse(why, "what the peer offers can't be taken");
    peer = take_in(seats, fds, &greeting);
    if (peer == NULL) {
        (void)refuse(why, "the peer's memory can't be used");
        shm_pass_close(fds, 3);
        return NULL;
    }
    shm_pass_close(fds, 1);
    if (answer(shm, peer, guest))
        return peer;
    (void)refuse(why, "the peer's memory can't be used");
    shm_peer_free(peer);
    return NULL;
}

/* ---- The side that connects ---- */

/* To whoever listens there, or where nobody does, at all addresses. -1 and errno. */
static int visit(const union soft_addr *remote)
{
    int fd, error;

    if (!turn_out_has_room()) {
        errno = EBUSY;
        return -1;
    }
    fd = open_socket();
    if (fd == -1)
        return -1;
    for (int any = 0; any < 2; any++) {
        struct sockaddr_un un;
        socklen_t length = name(&un, remote, any);

        if (connect(fd, (struct sockaddr *)&un, length) == 0)
            return fd;
        if (errno != ECONNREFUSED)
            break;
    }
    error = errno;
    fds_close(fd);
    errno = error;
    return -1;
}

static bool greet(const struct shm *shm, const struct shm_peer *peer, const uint8_t token[SHM_TOKEN])
{
    int fds[3] = {peer->memory};
    size_t count = 1 + add_call(shm, peer, fds + 1);
    struct greeting greeting = {.magic = MAGIC,
                                .mtu = SHM_MTU,
                                .ring_bytes = SHM_RING_BYTES,
                                .area_bytes = sizeof(struct shm_area),
                                .seat = seat_of(peer)};

    memcpy(greeting.token, token, SHM_TOKEN);
    return shm_pass_send(peer->meeting, &greeting, sizeof greeting, fds, count);
}

struct shm_peer *shm_offer(struct shm *shm, const union soft_addr *remote, uint8_t token[SHM_TOKEN],
                           struct shm_refusal *why)
{
    struct shm_peer *peer = NULL;
    struct shm_seats *seats;
    int meeting = settings()->shm ? visit(remote) : -1, memory = -1;

    if (meeting == -1)
        return refuse(why, "nobody takes memory there, as on another host");
    if (!shm_pass_is_ours(meeting)) {
        (void)refuse(why, "whoever takes memory there is another user");
        turn_out(meeting);
        return NULL;
    }
    if (may_have_another(shm, &seats) && getrandom(token, SHM_TOKEN, GRND_NONBLOCK) == SHM_TOKEN &&
        (memory = shm_sealed_make(sizeof(struct shm_area))) != -1)
        peer = make_peer(seats, memory, true);
    if (peer != NULL) {
        peer->meeting = meeting;
        peer->memory = memory;
        peer->spare = fds_own(fcntl(memory, F_DUPFD_CLOEXEC, 0));
        if (peer->spare != -1 && greet(shm, peer, token))
            return peer;
    }
    (void)refuse(why, "no memory can be offered");
    if (peer != NULL) {
        shm_peer_free(peer);
        return NULL;
    }
    shm_pass_close(&memory, 1);
    shm_pass_close(&meeting, 1);
    return NULL;
}

/* The memory is mapped, so its descriptor and the spare one make way for the bell and the board: there is room.
 */
int shm_accepted(struct shm_peer *peer)
{
    uint32_t seat;
    int fds[2], error = 0;

    shm_pass_close((int[]){peer->memory, peer->spare}, 2);
    peer->memory = peer->spare = -1;
    if (!shm_pass_receive(peer->meeting, &seat, sizeof seat, fds, 1, 2)) {
        error = errno;
    } else if (!take_call(peer, fds, seat)) {
        error = errno;
        shm_pass_close(fds, 2);
    }
    shm_pass_close(&peer->meeting, 1);
    peer->meeting = -1;
    return error;
}
