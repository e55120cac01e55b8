/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of sockets by number.
 *
 * A number is a real descriptor, a local socket that nobody uses, so that it cannot collide with another of the
 * process, and can be told from another that has got its number (fds.h). Each slot has a lock of its own, held
 * just to take a reference: threads that work on different sockets never meet here.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "fds.h"
#include "sock.h"

#define CHUNK 256
#define CHUNKS 4096

struct slot {
    pthread_mutex_t lock;
    struct sock *sock; /* a reference; guarded by lock */
};

static _Atomic(struct slot *) chunks[CHUNKS];
static pthread_mutex_t grow_lock = PTHREAD_MUTEX_INITIALIZER;

static struct slot *slot_of(int number)
{
    if (number < 0 || number >= CHUNK * CHUNKS)
        return NULL;
    struct slot *chunk = atomic_load_explicit(&chunks[number / CHUNK], memory_order_acquire);

    return chunk != NULL ? &chunk[number % CHUNK] : NULL;
}

/* The slot of a number that was never used before. NULL and errno. */
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

        for (int i = 0; chunk != NULL && i < CHUNK; i++)
            pthread_mutex_init(&chunk[i].lock, NULL);
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

struct sock *xs_sock_get(int number)
{
    struct slot *slot = slot_of(number);
    struct sock *sock = NULL;

    if (slot != NULL) {
        pthread_mutex_lock(&slot->lock);
        sock = slot->sock;
        if (sock != NULL)
            xs_sock_ref(sock);
        pthread_mutex_unlock(&slot->lock);
    }
    if (sock == NULL)
        errno = EBADF;
    return sock;
}

bool xs_sock_remove(struct sock *sock)
{
    struct slot *slot = slot_of(sock->number);

    pthread_mutex_lock(&slot->lock);
    bool there = slot->sock == sock;

    if (there)
        slot->sock = NULL;
    pthread_mutex_unlock(&slot->lock);
    if (there)
        xs_sock_put(sock);
    return there;
}

bool xs_sock_has_number(const struct sock *sock)
{
    return fds_is(sock->number, sock->identity);
}

/* Only now may the number be given to another; unless it was already, and if that is not the library's, a fork
 * must not close it. */
static void give_number_back(const struct sock *sock)
{
    if (xs_sock_has_number(sock))
        fds_close(sock->number);
    else if (!fds_is_own(sock->number))
        fds_disown(sock->number);
}

void xs_sock_put(struct sock *sock)
{
    if (atomic_fetch_sub_explicit(&sock->refs, 1, memory_order_acq_rel) != 1)
        return;
    int saved = errno;
    struct queue *home = atomic_load(&sock->home);

    give_number_back(sock);
    if (home != NULL)
        xs_queue_unref(home);
    pthread_mutex_destroy(&sock->guard);
    free(sock);
    errno = saved;
}

struct sock *xs_sock_new(int family, int type)
{
    struct sock *sock = calloc(1, sizeof(*sock));

    if (sock == NULL)
        return NULL;
    pthread_mutex_init(&sock->guard, NULL);
    atomic_init(&sock->refs, 2);
    sock->family = family;
    sock->type = type;
    sock->device = -1;
    TAILQ_INIT(&sock->requests);
    STAILQ_INIT(&sock->accepts);
    TAILQ_INIT(&sock->half_open);
    TAILQ_INIT(&sock->arrived);
    sock->number = fds_own(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (sock->number < 0)
        goto fail;
    sock->identity = fds_identity(sock->number);
    struct slot *slot = make_slot(sock->number);

    if (slot == NULL)
        goto fail;
    pthread_mutex_lock(&slot->lock);
    struct sock *lost = slot->sock; /* its number was closed by close(2) */

    slot->sock = sock;
    pthread_mutex_unlock(&slot->lock);
    if (lost != NULL)
        xs_sock_put(lost);
    return sock;
fail:
    if (sock->number >= 0)
        fds_close(sock->number);
    pthread_mutex_destroy(&sock->guard);
    free(sock);
    return NULL;
}

void xs_sock_reset(void)
{
    pthread_mutex_init(&grow_lock, NULL);
    for (int i = 0; i < CHUNKS; i++) {
        struct slot *chunk = atomic_load(&chunks[i]);

        for (int j = 0; chunk != NULL && j < CHUNK; j++) {
            pthread_mutex_init(&chunk[j].lock, NULL);
            chunk[j].sock = NULL;
        }
    }
}
