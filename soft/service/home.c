/* SPDX-License-Identifier: BSD-2-Clause */
/* home.c - opens, shares and closes device contexts; a closed context is freed with its last object. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "core/base/clock.h"
#include "soft/lock.h"
#include "soft/verbs/verbs.h"
#include "home.h"

#define UNSEEN 32    /* see looks_at_udp() */
#define UNHEARD 1024 /* receive_links() calls of a polling thread; the last reads the eventfd */

/* Closed contexts that still have objects. */
static struct {
    pthread_mutex_t lock;
    LIST_HEAD(, soft_home) list;
    /* Lets home_reap() return early if there are none. Relaxed, pairs with nothing: an entry that is missed is freed
     * when the next object is destroyed. */
    atomic_uint count;
} orphans = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* All contexts of the process. */
static struct {
    pthread_mutex_t lock;
    LIST_HEAD(, soft_home) list;
    /* The process that opened them; 0: there are none. Relaxed: a process sees its own store, so it pairs with
     * nothing. */
    _Atomic pid_t owner;
} everyone = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t monotonic_now(struct soft_clock *clock)
{
    (void)clock;
    return now_ns();
}

struct soft_clock home_clock = {monotonic_now};

static void report_polled(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    service_polled(&((struct soft_home *)wire)->service);
}

static void take_over(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    service_take_over(&((struct soft_home *)wire)->service);
}

/* Called for the first queue pair or socket. UDP sockets are opened with the first connection on each address. */
static int prepare_links(struct soft_wire *wire, struct ibv_context *context)
{
    struct soft_home *home = (struct soft_home *)wire;
    int error = udp_prepare(&home->udp);

    (void)context;
    if (error == 0 && !home->joined) {
        error = service_join(&home->service);
        home->joined = error == 0;
    }
    return error;
}

static int join_group(struct soft_wire *wire, const union soft_addr *group)
{
    return udp_group_join(&((struct soft_home *)wire)->udp, group);
}

static void leave_group(struct soft_wire *wire, const union soft_addr *group)
{
    udp_group_leave(&((struct soft_home *)wire)->udp, group);
}

/* Whether receive_links() should read the UDP sockets. If no queue pair uses UDP, only untrusted senders send datagrams.
 * Every UNSEEN-th call then reads them, so that they do not keep a descriptor readable. */
static bool looks_at_udp(struct soft_home *home)
{
    size_t others = (size_t)home->shm.count + home->tcp.count;

    if (others == 0 || others < soft_qps(home->context))
        return true;
    return ++home->unseen % UNSEEN == 0;
}

static void report_sent(struct soft_wire *wire, struct ibv_context *context)
{
    struct soft_home *home = (struct soft_home *)wire;

    (void)context;
    shm_sent(&home->shm);
    wire->holds = tcp_sent(&home->tcp, wire->may_hold);
}

static void settle_links(struct soft_wire *wire)
{
    tcp_settle(&((struct soft_home *)wire)->tcp);
}

static void watch_links(struct soft_wire *wire)
{
    shm_watch(&((struct soft_home *)wire)->shm);
    wire->unwatched = false;
}

static int receive_links(struct soft_wire *wire, struct ibv_context *context)
{
    struct soft_home *home = (struct soft_home *)wire;
    bool hears = wire->poll_mode == SOFT_POLLS_ONCE || ++home->unheard % UNHEARD == 0;
    bool watches = wire->poll_mode != SOFT_POLLS_RESTS;
    int packets = home->shm.ready ? shm_receive(&home->shm, hears, watches) : 0;

    wire->unwatched = home->shm.unwatched;
    packets += tcp_receive(&home->tcp);

    (void)context;
    return looks_at_udp(home) ? packets + udp_receive(&home->udp) : packets;
}

struct soft_home *home_open(void)
{
    struct soft_home *home = calloc(1, sizeof *home);

    if (home == NULL)
        return NULL;
    home->wire = (struct soft_wire){
        .link = &home->udp.link,
        .grain = SERVICE_TICK_NS,
        .receive = receive_links,
        .sent = report_sent,
        .watch = watch_links,
        .settle = settle_links,
        .attended = report_polled,
        .awaits = take_over,
        .open = prepare_links,
        .join = join_group,
        .leave = leave_group,
    };
    home->context = soft_open(&home->wire, &home_clock, 0);
    if (home->context == NULL) {
        free(home);
        return NULL;
    }
    home->service.context = home->context;
    udp_init(&home->udp, home->context, &home->service);
    shm_init(&home->shm, home->context, &home->service);
    tcp_init(&home->tcp, home->context, &home->service);
    soft_mutex_lock(&everyone.lock);
    LIST_INSERT_HEAD(&everyone.list, home, all);
    atomic_store_explicit(&everyone.owner, getpid(), memory_order_relaxed);
    soft_mutex_unlock(&everyone.lock);
    return home;
}

/* ---- With names ---- */

/* Gives the context its names. (locked) */
static int set_names(struct soft_home *home)
{
    struct soft_names names = {.guid = soft_host_guid()};
    int error = udp_take_lid(&home->udp, &names.lid, &names.roce);

    if (error != 0)
        return error;
    names.gid_count = soft_host_gids(names.gids);
    names.mtu = soft_host_mtu(home->udp.sockets[0].fd, names.gids, names.gid_count);
    soft_set_names(home->context, &names);
    return 0;
}

struct soft_home *home_open_named(void)
{
    struct soft_home *home = home_open();
    int error;

    if (home == NULL)
        return NULL;
    soft_lock(home->context);
    error = set_names(home);
    soft_unlock(home->context);
    if (error == 0 && soft_async_fd(home->context) < 0)
        error = errno;
    if (error == 0)
        return home;
    home_close(home);
    errno = error;
    return NULL;
}

static struct {
    pthread_mutex_t lock;
    struct soft_home *home;
    struct ibv_pd *pd;
    struct ibv_xrcd *xrcd;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct soft_home *home_shared(void)
{
    struct soft_home *home;

    soft_mutex_lock(&shared.lock);
    if (shared.home == NULL)
        shared.home = home_open_named();
    home = shared.home;
    soft_mutex_unlock(&shared.lock);
    return home;
}

struct ibv_pd *home_shared_pd(void)
{
    struct soft_home *home = home_shared();
    struct ibv_pd *pd = NULL;

    if (home == NULL)
        return NULL;
    soft_mutex_lock(&shared.lock);
    if (shared.pd == NULL)
        shared.pd = soft_alloc_pd(home->context);
    pd = shared.pd;
    soft_mutex_unlock(&shared.lock);
    return pd;
}

struct ibv_xrcd *home_shared_xrcd(void)
{
    struct ibv_xrcd_init_attr of_no_file = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    struct soft_home *home = home_shared();
    struct ibv_xrcd *xrcd = NULL;

    if (home == NULL)
        return NULL;
    soft_mutex_lock(&shared.lock);
    if (shared.xrcd == NULL)
        shared.xrcd = soft_open_xrcd(home->context, &of_no_file);
    xrcd = shared.xrcd;
    soft_mutex_unlock(&shared.lock);
    return xrcd;
}

void home_unshare(void)
{
    struct soft_home *home;

    soft_mutex_lock(&shared.lock);
    home = shared.home;
    if (shared.pd != NULL)
        (void)soft_dealloc_pd(shared.pd);
    if (shared.xrcd != NULL)
        (void)soft_close_xrcd(shared.xrcd);
    shared.home = NULL;
    shared.pd = NULL;
    shared.xrcd = NULL;
    soft_mutex_unlock(&shared.lock);
    if (home != NULL)
        home_close(home);
}

/* ---- Closing ---- */

/* The process ID also detects a child that was created without fork(2)'s handlers, for example by clone(2), and
 * therefore still has the lists. */
bool home_is_own(void)
{
    return atomic_load_explicit(&everyone.owner, memory_order_relaxed) == getpid();
}

/* An application may exit, or leave its queue pairs behind, without polling after the last message that it received. A
 * context whose lock is held is being driven, and is skipped. */
void home_settle(void)
{
    struct soft_home *home;
    struct udp_lost lost;

    if (!soft_mutex_trylock(&everyone.lock))
        return;
    LIST_FOREACH (home, &everyone.list, all) {
        if (!soft_trylock(home->context))
            continue;
        soft_flush(home->context);
        lost = udp_lost_of(&home->udp);
        soft_unlock(home->context);
        udp_lost_add(&lost);
    }
    soft_mutex_unlock(&everyone.lock);
    udp_lost_tell();
}

/* Closes the context and then its links. False: the context still has objects. */
static bool try_close(struct soft_home *home)
{
    struct udp_lost lost;
    bool closed;

    if (home->joined)
        service_suspend(&home->service);
    soft_lock(home->context);
    lost = udp_lost_of(&home->udp);
    soft_unlock(home->context);
    soft_mutex_lock(&everyone.lock); /* home_settle() may be using it */
    closed = soft_close(home->context) == 0;
    if (closed)
        LIST_REMOVE(home, all);
    soft_mutex_unlock(&everyone.lock);
    if (!closed) {
        if (home->joined)
            service_resume(&home->service);
        return false;
    }
    udp_lost_add(&lost);
    if (home->joined)
        service_leave(&home->service);
    udp_end(&home->udp);
    shm_end(&home->shm);
    tcp_end(&home->tcp);
    free(home);
    return true;
}

void home_close(struct soft_home *home)
{
    soft_mutex_lock(&orphans.lock);
    if (!try_close(home)) {
        LIST_INSERT_HEAD(&orphans.list, home, orphans);
        orphans.count++;
    }
    soft_mutex_unlock(&orphans.lock);
}

void home_reap(void)
{
    struct soft_home *home;

    if (atomic_load_explicit(&orphans.count, memory_order_relaxed) == 0)
        return;
    soft_mutex_lock(&orphans.lock);
    home = LIST_FIRST(&orphans.list);
    while (home != NULL) {
        struct soft_home *next = LIST_NEXT(home, orphans);

        LIST_REMOVE(home, orphans);
        if (try_close(home))
            orphans.count--;
        else
            LIST_INSERT_HEAD(&orphans.list, home, orphans);
        home = next;
    }
    soft_mutex_unlock(&orphans.lock);
}

void home_forget(void)
{
    pthread_mutex_init(&orphans.lock, NULL);
    LIST_INIT(&orphans.list);
    atomic_store(&orphans.count, 0);
    pthread_mutex_init(&everyone.lock, NULL);
    LIST_INIT(&everyone.list);
    atomic_store_explicit(&everyone.owner, 0, memory_order_relaxed);
    pthread_mutex_init(&shared.lock, NULL);
    shared.home = NULL;
    shared.pd = NULL;
    shared.xrcd = NULL;
    shm_forget();
}
