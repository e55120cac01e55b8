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

int udp_prepare(struct udp *udp)
{
    int error;

    if (udp->joined)
        return 0;
    udp->buffer = malloc((size_t)UDP_AT_ONCE * UDP_BUFFER);
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

/* The first queue pair. The sockets come with the first connection on each address. */
static int prepare(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    return udp_prepare((struct udp *)wire);
}

struct udp *udp_open(void)
{
    struct udp *udp = calloc(1, sizeof *udp);

    if (udp == NULL)
        return NULL;
    udp->wire = (struct soft_wire){
        .trailer = ICRC_SIZE,
        .grain = SERVICE_TICK_NS,
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
static int open_pair(struct udp_socket pair[2], unsigned lid)
{
    union soft_addr any = {.in = {.sin_family = AF_INET, .sin_port = soft_port_of_lid(lid)}};
    int error = udp_socket_open(&pair[0], &any);

    if (error != 0)
        return error;
    any.sa.sa_family = AF_INET6; /* the port is at the same place */
    pair[1].fd = -1;
    error = udp_socket_open(&pair[1], &any);
    if (error == 0 || error == EAFNOSUPPORT || error == EADDRNOTAVAIL)
        return 0;
    udp_socket_close(&pair[0]);
    return error;
}

/* The first LID that nobody has, from one at random on. 0 or an errno. */
static int take_lid(struct udp_socket pair[2], uint16_t *lid)
{
    uint16_t start = 0;
    int error = EADDRINUSE;

    if (getrandom(&start, sizeof start, GRND_NONBLOCK) != sizeof start)
        start = (uint16_t)getpid();
    for (unsigned tried = 0; tried < SOFT_LID_MAX && error == EADDRINUSE; tried++) {
        *lid = (uint16_t)(1 + (start + tried) % SOFT_LID_MAX);
        error = open_pair(pair, *lid);
    }
    return error;
}

/* (locked) */
static int name(struct udp *udp)
{
    struct soft_names names = {.guid = soft_host_guid()};
    struct udp_socket pair[2];
    int error = take_lid(pair, &names.lid);

    if (error != 0)
        return error;
    for (int i = 0; i < 2 && pair[i].fd != -1; i++) {
        if (error == 0)
            error = udp_sockets_add(udp, &pair[i]);
        else
            udp_socket_close(&pair[i]);
    }
    if (error != 0)
        return error;
    names.gid_count = soft_host_gids(names.gids);
    names.mtu = soft_host_mtu(udp->sockets[0].fd, names.gids, names.gid_count);
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
    struct udp_lost lost;

    if (!soft_mutex_trylock(&everyone.lock))
        return;
    LIST_FOREACH (udp, &everyone.list, all) {
        if (!soft_trylock(udp->context))
            continue;
        soft_flush(udp->context);
        lost = udp_lost_of(udp);
        soft_unlock(udp->context);
        udp_lost_add(&lost);
    }
    soft_mutex_unlock(&everyone.lock);
    udp_lost_tell();
}

/* Close the context and then the link, unless the user still has objects. */
static bool try_close(struct udp *udp)
{
    struct udp_lost lost;
    bool closed;

    if (udp->joined)
        service_suspend(&udp->service);
    soft_lock(udp->context);
    lost = udp_lost_of(udp);
    soft_unlock(udp->context);
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
    udp_lost_add(&lost);
    if (udp->joined)
        service_leave(&udp->service);
    udp_sockets_close(udp);
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
