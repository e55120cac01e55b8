/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_link.c - chooses the link that carries the packets of a connection. The REQ offers shared memory (shm_setup.h) and
 * the TCP connection itself (tcp.h), if EXS_LINK allows them. The REP accepts one of the two, shared memory if
 * possible. If it accepts neither, packets travel over UDP.
 */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "cm_id.h"

/* How often a request is postponed, for 0.1 s each time, until this process can offer memory. A listener waits 10 s for
 * a request. A process that has no free descriptors will probably not have any soon. */
#define TRIES 80
#define TRIES_WITHOUT_DESCRIPTORS 10
#define SCARCE_NS (NS_PER_S / 20)

static struct {
    atomic_uint_fast64_t shm, tcp, udp; /* number of connected ends; only counters, pair with nothing */
} chosen;

void cm_link_count(struct soft_cm_counters *out)
{
    out->by_shm = atomic_load(&chosen.shm);
    out->by_tcp = atomic_load(&chosen.tcp);
    out->by_udp = atomic_load(&chosen.udp);
}

void cm_link_listen(struct cm_id *id)
{
    union soft_addr local;

    if (cm_socket_names(id->fd, &local, NULL) == 0)
        id->setup = shm_setup_open(&local);
}

void cm_link_requested(struct cm_id *id)
{
    struct shm_setup *setup = id->listener->setup;

    if (setup == NULL)
        return;
    if (id->peer.shm)
        id->guest = shm_setup_find(setup, id->peer.token);
    else
        shm_setup_look(setup); /* accept clients even if this request has no token */
}

/* Whether descriptors are exhausted: those of this process, or those of this user in the queues of sockets. */
static bool is_scarcity(int error)
{
    return error == ETOOMANYREFS || error == EMFILE || error == ENFILE;
}

/* Calls shm_offer(). If that fails because descriptors are exhausted, all requests fail in the same way for SCARCE_NS
 * without trying: many requests may wait for descriptors, and each try maps and unmaps memory. */
static struct shm_peer *offer_in_turn(struct cm_id *id, struct shm *shm, const union soft_addr *remote)
{
    static struct {
        atomic_uint_fast64_t until; /* ns. Relaxed: both are advisory, and pair with nothing */
        atomic_int error;
    } scarce;

    uint64_t now = now_ns();
    struct shm_peer *peer;

    if (now < atomic_load_explicit(&scarce.until, memory_order_relaxed)) {
        id->refusal = (struct shm_refusal){"no memory can be offered",
                                           atomic_load_explicit(&scarce.error, memory_order_relaxed)};
        return NULL;
    }
    peer = shm_offer(shm, remote, id->own.token, &id->refusal);
    if (peer == NULL && is_scarcity(id->refusal.error)) {
        atomic_store_explicit(&scarce.error, id->refusal.error, memory_order_relaxed);
        atomic_store_explicit(&scarce.until, now + SCARCE_NS, memory_order_relaxed);
    }
    return peer;
}

/* Offers shared memory to the peer. NULL, and id->refusal. */
static struct shm_peer *offer_shm(struct cm_id *id, struct shm *shm, const union soft_addr *remote)
{
    if (id->own.private_length > CM_REQ_PRIVATE - CM_TOKEN) {
        id->refusal = (struct shm_refusal){"the request's private data leaves no room to offer memory", 0};
        return NULL;
    }
    return offer_in_turn(id, shm, remote);
}

static struct shm_peer *take_up(struct cm_id *id, struct shm *shm)
{
    if (id->guest != -1)
        return shm_accept(shm, id->guest, &id->refusal);
    id->refusal = (struct shm_refusal){
        id->peer.shm ? "the memory that the peer offers was not found, or is not accepted here"
                     : "the peer offers no memory",
        0};
    return NULL;
}

/* A queue pair that the application itself connects uses UDP, and so does a peer that may not be a software device. */
void cm_link_describe(struct cm_id *id, const union soft_addr *remote)
{
    struct cm_message *own = &id->own;
    struct shm *shm = &home_of(id->public.verbs)->shm;

    own->shm = own->tcp = false;
    if (id->public.qp == NULL || !id->transport->meets)
        return;
    if (id->offered != NULL && own->type == CM_REQ) { /* from an attempt that failed, with another token */
        shm_peer_free(id->offered);
        id->offered = NULL;
    }
    if (own->type == CM_REQ)
        id->offered = offer_shm(id, shm, remote);
    else if (own->type == CM_REP && id->offered == NULL) /* else an earlier attempt to accept has taken it */
        id->offered = take_up(id, shm);
    own->shm = id->offered != NULL;
    own->tcp = settings()->tcp && own->service != CM_UC && (own->type == CM_REQ || (id->peer.tcp && !own->shm));
    if (id->guest != -1) /* the client can still read the answer after this */
        fds_close(id->guest);
    id->guest = -1;
}

bool cm_link_may_be_udp(const struct cm_id *id)
{
    return id->own.type != CM_REP || (!id->own.shm && !id->own.tcp);
}

/* The connection needs no UDP socket: closes the context's UDP sockets, unless other queue pairs use them or may use
 * them later. `idle`: the identifier's own queue pair has no link. */
static void spare_udp(struct cm_id *id, bool idle)
{
    struct soft_home *home = home_of(id->public.verbs);

    id->names_udp = false;
    soft_lock(home->context);
    if ((size_t)home->shm.count + home->tcp.count + idle == soft_qps(home->context))
        udp_sockets_spare(&home->udp);
    soft_unlock(home->context);
}

unsigned cm_link_tries(const struct cm_id *id)
{
    if (id->offered != NULL)
        return 0;
    switch (id->refusal.error) {
    case EAGAIN: /* the backlog of the listener's unix socket is full */
    case EBUSY:  /* too many deferred closes: slow_close_has_room() */
    case ETOOMANYREFS:
        return TRIES;
    case EMFILE:
    case ENFILE:
        return TRIES_WITHOUT_DESCRIPTORS;
    default:
        return 0;
    }
}

/* Why the connection does not use shared memory. */
static struct shm_refusal why_not_shm(const struct cm_id *id)
{
    if (!settings()->shm)
        return (struct shm_refusal){"EXS_LINK says so", 0};
    if (!id->own.shm && id->refusal.what != NULL)
        return id->refusal;
    return (struct shm_refusal){"the peer takes no memory", 0};
}

/* With EXS_DEBUG, prints a line for each connection. */
static void log_link(const struct cm_id *id, const char *link)
{
    char host[INET6_ADDRSTRLEN] = "?";
    union soft_addr local, remote = {0};
    struct shm_refusal why;

    if (!settings()->debug)
        return;
    why = why_not_shm(id);
    if (id->transport->names(id, &local, &remote) == 0)
        inet_ntop(remote.sa.sa_family,
                  remote.sa.sa_family == AF_INET ? (void *)&remote.in.sin_addr : (void *)&remote.in6.sin6_addr,
                  host, sizeof host);
    if (!id->transport->meets)
        why.what = "it was set up by InfiniBand's connection manager";
    else if (strcmp(link, "shm") == 0)
        why.what = "both ends are this host's";
    else if (settings()->tcp && id->own.service != CM_UC && strcmp(link, "udp") == 0)
        why = (struct shm_refusal){id->own.type == CM_REQ ? "the peer takes no packets by TCP"
                                                          : "the peer offers no packets by TCP",
                                   0};
    xs_log("connection to %s port %d goes by %s because %s%s%s", host, ntohs(remote.in.sin_port), link,
           why.what, why.error != 0 ? ": " : "", why.error != 0 ? strerror(why.error) : "");
}

/* The connection's TCP socket carries its packets. id->tcp may exist from an earlier attempt to accept. */
static int choose_tcp(struct cm_id *id, struct soft_path *path)
{
    struct soft_home *home = home_of(id->public.verbs);
    int error;

    if (id->tcp == NULL)
        id->tcp = tcp_peer_new(id->fd);
    if (id->tcp == NULL)
        return errno;
    error = tcp_peer_attach(&home->tcp, id->tcp);
    if (error != 0)
        return error;
    spare_udp(id, false);
    path->link = &id->tcp->link;
    atomic_fetch_add(&chosen.tcp, 1);
    log_link(id, "tcp");
    return 0;
}

int cm_link_choose(struct cm_id *id, struct soft_path *path)
{
    struct shm_peer *peer = id->offered;
    int error;

    path->link = NULL;
    if (peer == NULL || !id->own.shm || !id->peer.shm) {
        if (peer != NULL)
            shm_peer_free(peer);
        id->offered = NULL;
        if (id->own.tcp && id->peer.tcp && id->transport->meets)
            return choose_tcp(id, path);
        id->names_udp = false;
        atomic_fetch_add(&chosen.udp, 1);
        log_link(id, "udp");
        return 0;
    }
    if (id->own.type == CM_REQ && (error = shm_accepted(peer)) != 0)
        return error; /* the other end uses shared memory already: no fallback */
    id->offered = NULL;
    shm_assign(&home_of(id->public.verbs)->shm, peer);
    spare_udp(id, false);
    path->link = &peer->link;
    atomic_fetch_add(&chosen.shm, 1);
    log_link(id, "shm");
    return 0;
}

void cm_link_begin(struct cm_id *id, struct soft_path *path)
{
    if (path->link != NULL && id->tcp == NULL)
        shm_join((struct shm_peer *)path->link);
}

/* From now on the link reads and writes the socket; it also sends the rest of this end's last message. */
static void begin_tcp(struct cm_id *id, enum tcp_rtu rtu)
{
    cm_want(id, cm_link_events(id));
    tcp_peer_begin(id->tcp, rtu, id->out, id->out_length);
    id->out_length = 0;
}

void cm_link_replied(struct cm_id *id)
{
    if (id->tcp == NULL || id->public.qp == NULL)
        return;
    tcp_peer_watch(id->tcp, &cm_channel_of(id)->waits, id);
    begin_tcp(id, TCP_RTU_EXPECTED);
}

void cm_link_established(struct cm_id *id)
{
    if (id->tcp == NULL)
        return;
    if (id->own.type == CM_REP) { /* the link was started by cm_link_replied() */
        tcp_peer_watch(id->tcp, NULL, NULL);
        cm_want(id, cm_link_events(id));
    } else if (id->public.qp != NULL) {
        begin_tcp(id, TCP_RTU_NOT_EXPECTED);
    }
}

int cm_link_hear(struct cm_id *id)
{
    if (tcp_peer_rtu(id->tcp) == TCP_RTU_EXPECTED)
        cm_qp_drain(id); /* the stream ends, perhaps after an RTU that the link has not read */
    switch (tcp_peer_rtu(id->tcp)) {
    case TCP_RTU_RECEIVED:
        return 1;
    case TCP_RTU_WRONG:
        return -EPROTO;
    default:
        return -ECONNRESET;
    }
}

/* The tcp link reads the socket; the connection manager then only watches for the end of the stream. */
uint32_t cm_link_events(const struct cm_id *id)
{
    bool is_read = id->state == CM_ESTABLISHED || id->state == CM_REPLIED;

    return id->tcp != NULL && is_read ? EPOLLRDHUP : EPOLLIN;
}

void cm_link_drop(struct cm_id *id)
{
    if (id->setup != NULL)
        shm_setup_close(id->setup);
    if (id->guest != -1)
        fds_close(id->guest);
    if (id->offered != NULL)
        shm_peer_free(id->offered);
    if (id->names_udp)
        spare_udp(id, id->public.qp != NULL);
    id->setup = NULL;
    id->guest = -1;
    id->offered = NULL;
}
