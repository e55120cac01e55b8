/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table.c - the table of sockets by number.
 *
 * A number is a real descriptor, of a local socket that is not used otherwise. So it can't collide with another
 * descriptor of the process, and the library can detect that the number stands for another file now (fds.h). Taking a
 * reference never waits: the slot counts the threads that do it (`takers`), and a thread that removes a socket from its
 * slot waits until that count is 0.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "core/base/fds.h"
#include "core/conn/ending.h"
#include "core/debug/misuse.h"
#include "core/queue/upcalls.h"
#include "sock.h"

#define CHUNK 256
#define CHUNKS 4096

struct slot {
    /* Pairs with sock; all accesses are sequentially consistent. A taker increments this before it reads sock;
     * a remover exchanges sock before it reads this. So one of them sees the other. */
    atomic_uint takers;
    atomic_bool was_used; /* by a socket that was published. Pairs with nothing */
    /* Identity of the last socket that was removed, whose number stays taken until it is closed. Stored before
     * the removal: pairs with a reader that finds sock NULL and then reads this. */
    _Atomic uint64_t left;
    _Atomic(struct sock *) sock; /* a reference. Pairs with takers and left */
};

/* Each chunk is made once: its store (release) pairs with the load that finds it (acquire). */
static _Atomic(struct slot *) chunks[CHUNKS];
static _Atomic uint32_t count; /* sockets in slots. Pairs with nothing: a snapshot */
static pthread_mutex_t grow_lock = PTHREAD_MUTEX_INITIALIZER;

static struct slot *slot_of(int number)
{
    if (number < 0 || number >= CHUNK * CHUNKS)
        return NULL;
    struct slot *chunk = atomic_load_explicit(&chunks[number / CHUNK], memory_order_acquire);

    return chunk != NULL ? &chunk[number % CHUNK] : NULL;
}

/* Get or make the slot of a number. NULL and errno. */
static struct slot *make_slot(int number)
{
    struct slot *slot = slot_of(number);

    if (slot != NULL)
        return slot;
    if (number < 0 || number >= CHUNK * CHUNKS) {
        errno = EMFILE;
        return NULL;
    }
    pthread_mutex_lock(&grow_lock);
    if (slot_of(number) == NULL) {
        struct slot *chunk = calloc(CHUNK, sizeof(*chunk));

        atomic_store_explicit(&chunks[number / CHUNK], chunk, memory_order_release);
    }
    pthread_mutex_unlock(&grow_lock);
    slot = slot_of(number);
    if (slot == NULL)
        errno = ENOMEM;
    return slot;
}

void xs_sock_ref(struct sock *sock)
{
    atomic_fetch_add_explicit(&sock->refs, 1, memory_order_relaxed);
}

inline struct sock *xs_sock_get(int number)
{
    struct slot *slot = slot_of(number);
    struct sock *sock = NULL;

    if (slot != NULL) {
        atomic_fetch_add(&slot->takers, 1);
        sock = atomic_load(&slot->sock);
        if (sock != NULL)
            xs_sock_ref(sock);
        atomic_fetch_sub(&slot->takers, 1);
    }
    if (sock == NULL)
        errno = EBADF;
    return sock;
}

inline __attribute__((always_inline)) struct sock *xs_sock_lock_at_once(int number)
{
    struct slot *slot = slot_of(number);
    struct queue *home = NULL;

    if (slot == NULL)
        return NULL;
    atomic_fetch_add(&slot->takers, 1);
    struct sock *sock = atomic_load(&slot->sock);

    if (sock != NULL)
        home = atomic_load_explicit(&sock->home, memory_order_acquire);
    bool has_it = home != NULL && mutex_trylock(&home->lock);

    atomic_fetch_sub(&slot->takers, 1);
    return has_it ? sock : NULL;
}

static in_port_t port_in(struct slot *slot)
{
    atomic_fetch_add(&slot->takers, 1);
    struct sock *sock = atomic_load(&slot->sock);
    in_port_t port = sock != NULL ? atomic_load_explicit(&sock->listens_at, memory_order_relaxed) : 0;

    atomic_fetch_sub(&slot->takers, 1);
    return port;
}

int xs_sock_listening(in_port_t port)
{
    for (int i = 0; i < CHUNKS; i++) {
        struct slot *chunk = atomic_load_explicit(&chunks[i], memory_order_acquire);

        for (int j = 0; chunk != NULL && j < CHUNK; j++) {
            if (port != 0 && port_in(&chunk[j]) == port)
                return i * CHUNK + j;
        }
    }
    return -1;
}

bool xs_sock_was(int number)
{
    struct slot *slot = slot_of(number);

    return slot != NULL && atomic_load(&slot->was_used) && atomic_load(&slot->sock) == NULL;
}

bool xs_sock_has_left(int number)
{
    struct slot *slot = slot_of(number);
    uint64_t identity = slot != NULL ? atomic_load(&slot->left) : 0;

    return identity != 0 && fds_is(number, identity);
}

/* Wait until no thread has read the slot but not yet taken its reference, which takes a few instructions. */
static void wait_for_takers(struct slot *slot)
{
    while (atomic_load(&slot->takers) > 0)
        sched_yield();
}

bool xs_sock_remove(struct sock *sock)
{
    struct slot *slot = slot_of(sock->number);
    struct sock *there = sock;

    atomic_store(&slot->left, sock->identity);
    if (!atomic_compare_exchange_strong(&slot->sock, &there, NULL))
        return false;
    atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
    wait_for_takers(slot);
    xs_sock_put(sock);
    return true;
}

bool xs_sock_has_number(const struct sock *sock)
{
    return fds_is(sock->number, sock->identity);
}

/* Release the number. If it was closed by close(2), and stands for another file by now, don't close it; if that
 * file does not belong to the library, also make sure that a forked child does not close it. */
static void give_number_back(const struct sock *sock)
{
    if (xs_sock_has_number(sock))
        fds_close(sock->number);
    else if (!fds_is_own(sock->number))
        fds_disown(sock->number);
}

static __attribute__((cold)) void free_sock(struct sock *sock)
{
    int saved = errno;
    struct queue *home = atomic_load(&sock->home);

    give_number_back(sock);
    if (home != NULL)
        xs_queue_unref(home);
    pthread_mutex_destroy(&sock->guard);
    free(sock);
    errno = saved;
}

inline void xs_sock_put(struct sock *sock)
{
    if (atomic_fetch_sub_explicit(&sock->refs, 1, memory_order_acq_rel) == 1)
        free_sock(sock);
}

struct sock *xs_sock_new(int family, int type)
{
    struct sock *sock = calloc(1, sizeof(*sock));

    if (sock == NULL)
        return NULL;
    pthread_mutex_init(&sock->guard, NULL);
    atomic_init(&sock->refs, 1);
    sock->family = family;
    sock->type = type;
    sock->device = -1;
    sock->sends_bounded = sock->receives_bounded = xs_misuse_on;
    TAILQ_INIT(&sock->requests);
    STAILQ_INIT(&sock->accepts);
    TAILQ_INIT(&sock->half_open);
    TAILQ_INIT(&sock->arrived);
    sock->number = fds_own(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (sock->number < 0)
        goto fail;
    sock->identity = fds_identity(sock->number);
    if (make_slot(sock->number) == NULL)
        goto fail;
    return sock;
fail:
    if (sock->number >= 0)
        fds_close(sock->number);
    pthread_mutex_destroy(&sock->guard);
    free(sock);
    return NULL;
}

void xs_sock_publish(struct sock *sock)
{
    struct slot *slot = slot_of(sock->number);

    atomic_store(&slot->was_used, true);
    xs_sock_ref(sock); /* the slot's reference */
    /* not NULL: the earlier socket's number was closed by close(2) */
    struct sock *lost = atomic_exchange(&slot->sock, sock);

    if (lost != NULL) {
        wait_for_takers(slot);
        xs_sock_put(lost);
    } else {
        atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    }
}

uint32_t xs_sock_count(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed);
}

/* The event may belong to a socket that was closed, whose number another socket has now. */
void xs_sock_reported(int number, uint64_t identity)
{
    struct slot *slot = slot_of(number);

    if (slot == NULL)
        return;
    atomic_fetch_add(&slot->takers, 1);
    struct sock *sock = atomic_load(&slot->sock);

    if (sock != NULL && sock->identity == identity)
        atomic_fetch_and_explicit(&sock->sent, (uint8_t)~SENT_UNREPORTED, memory_order_relaxed);
    atomic_fetch_sub(&slot->takers, 1);
}

void xs_sock_reset(void)
{
    pthread_mutex_init(&grow_lock, NULL);
    atomic_store(&count, 0);
    for (int i = 0; i < CHUNKS; i++) {
        struct slot *chunk = atomic_load(&chunks[i]);

        for (int j = 0; chunk != NULL && j < CHUNK; j++) {
            atomic_store(&chunk[j].takers, 0);
            atomic_store(&chunk[j].was_used, false);
            atomic_store(&chunk[j].left, 0);
            atomic_store(&chunk[j].sock, NULL);
        }
    }
}
