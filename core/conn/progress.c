/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * progress.c - continues sends and closes for which neither a call nor an event queue waits, on a socket without an
 * owner.
 *
 * Such a send (EXS_UNSIGNALED without a queue) is over for the application at once. If it has to wait for the peer's
 * credits, a later call on the socket or an operation of a queue would send the rest, but there may never be one.
 * Therefore the library has a private queue that a thread runs, and attaches the socket's home to it (detach.c) until
 * all bytes were given to the device, or the close is done. The thread starts with the first such send or close and
 * ends with exs_fini.
 *
 * A program that closes its sockets and then ends must not cut the closes off: exs_fini, and exit(3) in a program that
 * does not call exs_fini, wait until the closes are done. Each has its own time limit (close.c).
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/entry.h"
#include "core/base/log.h"
#include "core/base/threads.h"
#include "core/queue/nic.h"
#include "core/queue/queue.h"
#include "core/queue/socket.h"
#include "core/queue/upcalls.h"
#include "conn.h"
#include "progress.h"

#define IDLE_MS 20 /* between polls while a queue that needs no progress any more is still attached */

/* lock order: after the lock of a socket's queue, before events.lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* guarded by `lock`: */
static struct queue *driver; /* NULL: there is no thread */
static pthread_t thread;
static int closes; /* that the thread drives; signals `all_closed` at 0 */
static bool has_exit_handler;
static unsigned generation; /* of the process that has started the thread (entry.h) */
static atomic_bool ends;    /* pairs with the load in run_progress() */

static pthread_cond_t all_closed = PTHREAD_COND_INITIALIZER;

/* ---- Sends that have to wait -------------------------------------------------------------------------- */

static bool has_to_wait(const struct sock *sock)
{
    const struct conn *conn = sock->conn;

    return sock->owner == NULL && conn != NULL && conn->state.stage == CONN_OPEN &&
           (conn->tx.current != NULL || conn->onesided.current != NULL || conn->state.writing == WRITE_SHUT);
}

/* A connect on a nonblocking socket (nonblocking.c). */
static bool connects_alone(const struct sock *sock)
{
    return sock->opening != NULL && sock->opening->silent;
}

bool xs_progress_is_needed(const struct queue *home)
{
    const struct sock *sock;

    LIST_FOREACH (sock, &home->socks, at_home) {
        if (has_to_wait(sock) || sock->closes_in_background || connects_alone(sock))
            return true;
    }
    return false;
}

/* ---- The thread ----------------------------------------------------------------------------------------- */

static bool has_idle_attachments(struct queue *queue)
{
    mutex_lock(&queue->events.lock);
    bool has = !TAILQ_EMPTY(&queue->attached.idle);

    mutex_unlock(&queue->events.lock);
    return has;
}

static void *run_progress(void *unused)
{
    struct pollfd wait = {.events = POLLIN};
    exs_event_t event;

    (void)unused;
    pthread_setname_np(pthread_self(), "exs-progress");
    pthread_mutex_lock(&lock);
    struct queue *queue = driver;

    pthread_mutex_unlock(&lock);
    if (queue == NULL) /* the thread must end before it has started its work */
        return NULL;
    wait.fd = queue->fd;
    while (!atomic_load(&ends)) { /* pairs with the store in xs_progress_end() */
        (void)poll(&wait, 1, has_idle_attachments(queue) ? IDLE_MS : -1);
        /* returns no events, because no operation names this queue */
        (void)xs_queue_dequeue(queue, &event, 1, BY_LEVEL);
    }
    return NULL;
}

/* Called with `lock`. */
static void wait_for_closes(void)
{
    while (closes > 0)
        pthread_cond_wait(&all_closed, &lock);
}

/* Called by exit(3). A forked child has no such thread. */
static void finish_closes(void)
{
    if (generation != xs_generation())
        return;
    pthread_mutex_lock(&lock);
    if (driver != NULL && !pthread_equal(thread, pthread_self()))
        wait_for_closes();
    pthread_mutex_unlock(&lock);
}

/* Returns 0 or an errno. */
static int start_thread(void)
{
    if (!has_exit_handler && atexit(finish_closes) != 0)
        return ENOMEM;
    has_exit_handler = true;
    struct queue *queue = xs_queue_new(true, 0);

    if (queue == NULL)
        return errno;
    queue->drives_sends = true;
    driver = queue;
    generation = xs_generation();
    atomic_store(&ends, false);
    int error = xs_queue_make_descriptor(queue) < 0 ? errno : threads_start(&thread, run_progress);

    if (error == 0)
        return 0;
    driver = NULL;
    xs_queue_unref(queue);
    return error;
}

/* NULL and errno. */
static struct queue *get_driver(void)
{
    pthread_mutex_lock(&lock);
    int error = driver == NULL ? start_thread() : 0;
    struct queue *queue = driver;

    pthread_mutex_unlock(&lock);
    errno = error;
    return queue;
}

int xs_progress_drive(struct sock *sock)
{
    struct queue *home = atomic_load(&sock->home), *queue = get_driver();

    if (queue == NULL || xs_queue_host(queue, home) < 0)
        return -1;
    struct attachment *attachment = xs_queue_attachment(queue, home);

    mutex_lock(&queue->events.lock);
    if (attachment->uses == 0)
        xs_attachment_use(attachment, 1);
    mutex_unlock(&queue->events.lock);
    return 0;
}

void xs_progress_ensure(struct sock *sock)
{
    if (has_to_wait(sock))
        xs_nic_look_once(sock->conn->nic);
    if (has_to_wait(sock) && xs_progress_drive(sock) < 0)
        xs_log("socket %d: cannot start a thread that continues its sends: %s; they wait for its next call",
               sock->number, strerror(errno));
}

void xs_progress_close_started(struct sock *sock)
{
    sock->closes_in_background = true;
    pthread_mutex_lock(&lock);
    closes++;
    pthread_mutex_unlock(&lock);
}

void xs_progress_close_done(struct sock *sock)
{
    if (!sock->closes_in_background)
        return;
    sock->closes_in_background = false;
    pthread_mutex_lock(&lock);
    if (--closes == 0)
        pthread_cond_broadcast(&all_closed);
    pthread_mutex_unlock(&lock);
}

void xs_progress_end(void)
{
    pthread_mutex_lock(&lock);
    wait_for_closes();
    struct queue *queue = driver;

    driver = NULL;
    pthread_mutex_unlock(&lock);
    if (queue == NULL)
        return;
    atomic_store(&ends, true); /* pairs with the load in run_progress() */
    mutex_lock(&queue->events.lock);
    doorbell_retrigger(&queue->events.raise);
    mutex_unlock(&queue->events.lock);
    pthread_join(thread, NULL);
    xs_queue_release_attachments(queue);
    xs_queue_unref(queue);
}

void xs_progress_reset(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&all_closed, NULL);
    driver = NULL;
    closes = 0;
}
