/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a UDP link and of the context behind it. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "core/soft/lock.h"
#include "udp.h"
#include "core/soft/verbs/verbs.h"

/* Links whose event channel is gone while the user still has objects of their contexts. */
static struct {
    pthread_mutex_t lock;
    LIST_HEAD(, udp) list;
    atomic_uint count; /* so that udp_reap costs nothing as long as there are none */
} orphans = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Every link of the process. */
static struct {
    pthread_mutex_t lock;
    LIST_HEAD(, udp) list;
} everyone = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t monotonic(struct soft_clock *clock)
{
    struct timespec now;

    (void)clock;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static struct soft_clock monotonic_clock = {monotonic};

static void attended(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    service_attended(&((struct udp *)wire)->service);
}

static void awaits(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    service_take_over(&((struct udp *)wire)->service);
}

/* The first queue pair. The sockets come with the first connection of each family. */
static int prepare(struct soft_wire *wire, struct ibv_context *context)
{
    struct udp *udp = (struct udp *)wire;
    int error;

    (void)context;
    if (udp->joined)
        return 0;
    udp->buffer = malloc(UDP_BUFFER);
    if (udp->buffer == NULL)
        return ENOMEM;
    error = service_join(&udp->service);
    if (error != 0) {
        free(udp->buffer);
        udp->buffer = NULL;
        return error;
    }
    udp->joined = true;
    return 0;
}

/* (locked) An open socket's packets wake the application and the service thread. On failure it is closed. */
static int attach(struct udp *udp, struct udp_socket *socket)
{
    int error = soft_watch(udp->context, socket->fd) == 0 ? 0 : errno;

    if (error != 0)
        goto close;
    error = service_add(&udp->service, socket->fd);
    if (error == 0)
        return 0;
    soft_unwatch(udp->context, socket->fd);
close:
    udp_socket_close(socket);
    return error;
}

static int open_socket(struct udp *udp, struct udp_socket *socket, sa_family_t family)
{
    int error = prepare(&udp->wire, udp->context);

    if (error == 0)
        error = udp_socket_open(socket, family, 0);
    return error == 0 ? attach(udp, socket) : error;
}

struct udp_socket *udp_socket_of(struct udp *udp, sa_family_t family)
{
    struct udp_socket *socket = family == AF_INET ? &udp->v4 : &udp->v6;

    if (socket->fd == -1) {
        int error = open_socket(udp, socket, family);

        if (error != 0) {
            errno = error;
            return NULL;
        }
    }
    return socket;
}

in_port_t udp_port(struct udp *udp, sa_family_t family)
{
    struct udp_socket *socket;

    soft_lock(udp->context);
    socket = udp_socket_of(udp, family);
    soft_unlock(udp->context);
    return socket == NULL ? 0 : socket->port;
}

struct udp *udp_open(void)
{
    struct udp *udp = calloc(1, sizeof *udp);

    if (udp == NULL)
        return NULL;
    udp->v4.fd = udp->v6.fd = -1;
    udp->wire = (struct soft_wire){
        .trailer = ICRC_SIZE,
        .send = udp_send,
        .receive = udp_receive,
        .attended = attended,
        .awaits = awaits,
        .open = prepare,
    };
    udp->context = soft_open(&udp->wire, &monotonic_clock, 0);
    if (udp->context == NULL) {
        free(udp);
        return NULL;
    }
    udp->service.context = udp->context;
    soft_mutex_lock(&everyone.lock);
    LIST_INSERT_HEAD(&everyone.list, udp, all);
    soft_mutex_unlock(&everyone.lock);
    return udp;
}

/* ---- With names ---- */

/* Both families on a LID's port: 0, or an errno, and neither. A host without IPv6 has only the one. */
static int open_pair(struct udp *udp, unsigned lid)
{
    int error = udp_socket_open(&udp->v4, AF_INET, soft_port_of_lid(lid));

    if (error != 0)
        return error;
    error = udp_socket_open(&udp->v6, AF_INET6, soft_port_of_lid(lid));
    if (error == 0 || error == EAFNOSUPPORT || error == EADDRNOTAVAIL)
        return 0;
    udp_socket_close(&udp->v4);
    return error;
}

/* The first LID that nobody has, from one at random on. 0 or an errno. */
static int take_lid(struct udp *udp, uint16_t *lid)
{
    uint16_t start = 0;
    int error = EADDRINUSE;

    if (getrandom(&start, sizeof start, GRND_NONBLOCK) != sizeof start)
        start = (uint16_t)getpid();
    for (unsigned tried = 0; tried < SOFT_LID_MAX && error == EADDRINUSE; tried++) {
        *lid = (uint16_t)(1 + (start + tried) % SOFT_LID_MAX);
        error = open_pair(udp, *lid);
    }
    return error;
}

/* (locked) */
static int name(struct udp *udp)
{
    struct soft_names names = {.guid = soft_host_guid()};
    int error = take_lid(udp, &names.lid);

    if (error == 0)
        error = prepare(&udp->wire, udp->context);
    if (error == 0)
        error = attach(udp, &udp->v4);
    if (error == 0 && udp->v6.fd != -1)
        error = attach(udp, &udp->v6);
    if (error != 0)
        return error;
    names.gid_count = soft_host_gids(names.gids);
    names.mtu = soft_host_mtu(udp->v4.fd, names.gids, names.gid_count);
    soft_set_names(udp->context, &names);
    return 0;
}

struct udp *udp_open_named(void)
{
    struct udp *udp = udp_open();
    int error;

    if (udp == NULL)
        return NULL;
    soft_lock(udp->context);
    error = name(udp);
    soft_unlock(udp->context);
    if (error == 0)
        return udp;
    udp_close(udp);
    errno = error;
    return NULL;
}

static struct {
    pthread_mutex_t lock;
    struct udp *udp;
    struct ibv_pd *pd;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct udp *udp_shared(void)
{
    struct udp *udp;

    soft_mutex_lock(&shared.lock);
    if (shared.udp == NULL)
        shared.udp = udp_open_named();
    udp = shared.udp;
    soft_mutex_unlock(&shared.lock);
    return udp;
}

struct ibv_pd *udp_shared_pd(void)
{
    struct udp *udp = udp_shared();
    struct ibv_pd *pd = NULL;

    if (udp == NULL)
        return NULL;
    soft_mutex_lock(&shared.lock);
    if (shared.pd == NULL)
        shared.pd = soft_alloc_pd(udp->context);
    pd = shared.pd;
    soft_mutex_unlock(&shared.lock);
    return pd;
}

/* ---- The end ---- */

/* An application may end, or leave its queue pairs behind, without a glance back at the last message that it
 * took. Whoever holds a lock now is driving the device. */
void udp_settle(void)
{
    struct udp *udp;

    if (!soft_mutex_trylock(&everyone.lock))
        return;
    LIST_FOREACH (udp, &everyone.list, all) {
        if (!soft_trylock(udp->context))
            continue;
        soft_flush(udp->context);
        soft_unlock(udp->context);
    }
    soft_mutex_unlock(&everyone.lock);
}

/* Close the context and then the link, unless the user still has objects. */
static bool try_close(struct udp *udp)
{
    bool closed;

    if (udp->joined)
        service_suspend(&udp->service);
    soft_mutex_lock(&everyone.lock); /* udp_settle may be looking at it */
    closed = soft_close(udp->context) == 0;
    if (closed)
        LIST_REMOVE(udp, all);
    soft_mutex_unlock(&everyone.lock);
    if (!closed) {
        if (udp->joined)
            service_resume(&udp->service);
        return false;
    }
    if (udp->joined)
        service_leave(&udp->service);
    udp_socket_close(&udp->v4);
    udp_socket_close(&udp->v6);
    free(udp->buffer);
    free(udp);
    return true;
}

void udp_close(struct udp *udp)
{
    soft_mutex_lock(&orphans.lock);
    if (!try_close(udp)) {
        LIST_INSERT_HEAD(&orphans.list, udp, orphans);
        orphans.count++;
    }
    soft_mutex_unlock(&orphans.lock);
}

void udp_reap(void)
{
    struct udp *udp;

    if (atomic_load_explicit(&orphans.count, memory_order_relaxed) == 0)
        return;
    soft_mutex_lock(&orphans.lock);
    udp = LIST_FIRST(&orphans.list);
    while (udp != NULL) {
        struct udp *next = LIST_NEXT(udp, orphans);

        LIST_REMOVE(udp, orphans);
        if (try_close(udp))
            orphans.count--;
        else
            LIST_INSERT_HEAD(&orphans.list, udp, orphans);
        udp = next;
    }
    soft_mutex_unlock(&orphans.lock);
}

void udp_forget(void)
{
    pthread_mutex_init(&orphans.lock, NULL);
    LIST_INIT(&orphans.list);
    atomic_store(&orphans.count, 0);
    pthread_mutex_init(&everyone.lock, NULL);
    LIST_INIT(&everyone.list);
    pthread_mutex_init(&shared.lock, NULL);
    shared.udp = NULL;
    shared.pd = NULL;
}
