/* SPDX-License-Identifier: BSD-2-Clause */
/* members.c - see members.h. */
#include "members.h"
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "check/support/endpoints.h"
#include "check/support/ibwords.h"
#include "check/support/roce.h"
#include "core/base/clock.h"
#include "soft/engine/context.h"
#include "soft/engine/group.h"
#include "soft/link/icrc.h"
#include "soft/verbs/verbs.h"

#define PATIENCE_NS UINT64_C(20000000000)
#define PARTITION 0xffff
#define OUTSIDER_QPN 0x12

static union ibv_gid gid_of(const char *text)
{
    union soft_addr addr = ib_at(text, 0);
    union ibv_gid gid;

    soft_gid_of(&gid, &addr.sa);
    return gid;
}

/* ---- Opening and closing ---- */

static void post_slot(struct member *self, uint64_t slot)
{
    struct ibv_sge sge = {(uintptr_t)(self->memory + slot * MEMBER_SLOT), MEMBER_SLOT, self->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

    ck_assert_int_eq(ibv_post_recv(self->qp, &wr, &bad), 0);
}

void member_take(struct member *self, struct ibv_qp *qp)
{
    memset(self, 0, sizeof *self);
    self->qp = qp;
    self->home = home_of(qp->context);
    self->watched = soft_context_of(qp->context)->watched_count - self->home->udp.group_count;
    self->served = self->home->service.count - self->home->udp.group_count;
    self->mr = soft_reg_mr(qp->pd, self->memory, sizeof self->memory, IBV_ACCESS_LOCAL_WRITE);
    ck_assert_ptr_nonnull(self->mr);
    for (uint64_t slot = 0; slot < MEMBER_RECEIVES; slot++)
        post_slot(self, slot);
}

void member_give_back(struct member *self)
{
    ck_assert_int_eq(soft_dereg_mr(self->mr), 0);
}

static void make(struct member *self, struct ibv_context *context)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .cap = {4, MEMBER_RECEIVES, 1, 1, 0}};
    struct ibv_pd *pd = soft_alloc_pd(context);
    struct ibv_qp *qp;

    attr.send_cq = soft_create_cq(context, 4, NULL, NULL, 0);
    attr.recv_cq = soft_create_cq(context, 2 * MEMBER_RECEIVES, NULL, NULL, 0);
    ck_assert(pd != NULL && attr.send_cq != NULL && attr.recv_cq != NULL);
    qp = soft_create_qp(pd, &attr);
    ck_assert_msg(qp != NULL, "soft_create_qp: %s", strerror(errno));
    qp_ready_datagrams(qp, MEMBER_QKEY);
    member_take(self, qp);
    self->pd = pd;
}

void member_open(struct member *self)
{
    struct soft_home *home = home_open_named();

    ck_assert_msg(home != NULL, "home_open_named: %s", strerror(errno));
    make(self, home->context);
}

void member_open_beside(struct member *self, const struct member *first)
{
    make(self, first->home->context);
    self->beside = true;
}

void member_close(struct member *self)
{
    struct ibv_cq *sends = self->qp->send_cq, *receives = self->qp->recv_cq;

    ck_assert_int_eq(soft_destroy_qp(self->qp), 0);
    ck_assert_int_eq(soft_destroy_cq(sends), 0);
    ck_assert_int_eq(soft_destroy_cq(receives), 0);
    member_give_back(self);
    ck_assert_int_eq(soft_dealloc_pd(self->pd), 0);
    if (!self->beside)
        home_close(self->home);
}

/* ---- Groups ---- */

int member_attach(struct member *self, const char *group)
{
    union ibv_gid gid = gid_of(group);

    return soft_attach_mcast(self->qp, &gid, 0);
}

int member_detach(struct member *self, const char *group)
{
    union ibv_gid gid = gid_of(group);

    return soft_detach_mcast(self->qp, &gid, 0);
}

void member_has_sockets(struct member *self, int groups)
{
    ck_assert_int_eq(self->home->udp.group_count, groups);
    ck_assert_int_eq(soft_context_of(self->qp->context)->watched_count - self->watched, groups);
    ck_assert_int_eq(self->home->service.count - self->served, groups);
}

bool member_is_at(struct member *self, const char *group)
{
    const struct udp *udp = &self->home->udp;
    union ibv_gid wanted = gid_of(group), at;

    for (int i = 0; i < udp->group_count; i++) {
        soft_gid_of(&at, &udp->groups[i].local.sa);
        if (memcmp(&at, &wanted, sizeof at) == 0)
            return true;
    }
    return false;
}

/* ---- Sending and receiving ---- */

/* Waits for the next completion, at most PATIENCE_NS. */
static struct ibv_wc next_of(struct ibv_cq *cq)
{
    uint64_t late = now_ns() + PATIENCE_NS;
    struct ibv_wc wc;
    int got;

    while ((got = ibv_poll_cq(cq, 1, &wc)) == 0)
        if (now_ns() > late)
            ck_abort_msg("nothing completes");
    ck_assert_int_eq(got, 1);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    return wc;
}

struct ibv_ah_attr member_way(struct member *self, const char *from, const char *group)
{
    struct ibv_ah_attr way = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid_of(group), .hop_limit = 1}};
    union ibv_gid own = gid_of(from);
    int index;

    soft_lock(self->qp->context);
    index = soft_gid_index(self->qp->context, &own);
    soft_unlock(self->qp->context);
    ck_assert_msg(index >= 0, "%s is not in the table", from);
    way.grh.sgid_index = (uint8_t)index;
    return way;
}

void member_says_as(struct member *self, const struct ibv_ah_attr *way, uint32_t qkey, uint8_t value)
{
    struct ibv_ah_attr to = *way;
    struct ibv_ah *ah = soft_create_ah(self->qp->pd, &to);
    uint8_t *what = self->memory + MEMBER_RECEIVES * MEMBER_SLOT;
    struct ibv_sge sge = {(uintptr_t)what, MEMBER_BYTES, self->mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.ud = {.ah = ah, .remote_qpn = SOFT_GROUP_QPN, .remote_qkey = qkey}};

    ck_assert_msg(ah != NULL, "soft_create_ah: %s", strerror(errno));
    memset(what, value, MEMBER_BYTES);
    ck_assert_int_eq(ibv_post_send(self->qp, &wr, &bad), 0);
    (void)next_of(self->qp->send_cq);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
}

void member_says(struct member *self, const char *from, const char *group, uint8_t value)
{
    struct ibv_ah_attr way = member_way(self, from, group);

    member_says_as(self, &way, MEMBER_QKEY, value);
}

const uint8_t *member_hears(struct member *self, uint8_t value)
{
    struct ibv_wc wc = next_of(self->qp->recv_cq);
    const uint8_t *slot = self->memory + wc.wr_id * MEMBER_SLOT;

    ck_assert_uint_lt(wc.wr_id, MEMBER_RECEIVES);
    ck_assert_uint_eq(wc.byte_len, MEMBER_SLOT);
    ck_assert_uint_eq(wc.qp_num, self->qp->qp_num);
    for (int i = MEMBER_GRH; i < MEMBER_SLOT; i++)
        ck_assert_uint_eq(slot[i], value);
    post_slot(self, wc.wr_id);
    return slot;
}

void member_hears_nothing(struct member *self)
{
    struct ibv_wc wc;

    ck_assert_int_eq(ibv_poll_cq(self->qp->recv_cq, 1, &wc), 0);
}

struct soft_counters member_counters(struct member *self)
{
    struct soft_counters counters;

    soft_query_counters(self->qp->context, &counters);
    return counters;
}

void member_refuses(struct member *self, uint64_t count)
{
    uint64_t late = now_ns() + PATIENCE_NS;

    while (member_counters(self).refused < count) {
        ck_assert_uint_le(now_ns(), late);
        member_hears_nothing(self);
    }
    ck_assert_uint_eq(member_counters(self).refused, count);
    member_hears_nothing(self);
}

void member_finds_damaged(struct member *self, uint64_t count)
{
    uint64_t late = now_ns() + PATIENCE_NS;

    while (member_counters(self).malformed < count) {
        ck_assert_uint_le(now_ns(), late);
        member_hears_nothing(self);
    }
    ck_assert_uint_eq(member_counters(self).malformed, count);
    member_hears_nothing(self);
}

/* ---- A peer that is a plain UDP socket ---- */

static socklen_t size_of(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_INET ? sizeof addr->in : sizeof addr->in6;
}

struct outsider outsider_at(const char *from, const char *group)
{
    struct outsider self = {.path = {.local = ib_at(from, 0), .remote = ib_at(group, SOFT_UDP_PORT)}};
    socklen_t size = sizeof self.path.local;
    int mode = IP_PMTUDISC_DO;

    self.fd = socket(self.path.local.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ne(self.fd, -1);
    if (self.path.local.sa.sa_family == AF_INET)
        ck_assert_int_eq(setsockopt(self.fd, IPPROTO_IP, IP_MTU_DISCOVER, &mode, sizeof mode), 0);
    ck_assert_int_eq(bind(self.fd, &self.path.local.sa, size_of(&self.path.local)), 0);
    ck_assert_int_eq(getsockname(self.fd, &self.path.local.sa, &size), 0); /* the ICRC covers the source port */
    return self;
}

void outsider_says(struct outsider *self, uint32_t qpn, uint8_t value, unsigned id, bool damaged)
{
    uint8_t packet[ROCE_MAX], payload[MEMBER_BYTES];
    struct roce roce = {.opcode = ROCE_UD + SEND_ONLY,
                        .migreq = true,
                        .pkey = PARTITION,
                        .qpn = qpn,
                        .has_deth = true,
                        .qkey = MEMBER_QKEY,
                        .source = OUTSIDER_QPN,
                        .payload = payload,
                        .payload_length = MEMBER_BYTES};
    struct icrc_flow flow;
    ssize_t sent;
    size_t length;

    memset(payload, value, MEMBER_BYTES);
    length = roce_write(packet, &roce);
    icrc_flow_init(&flow, &self->path, true);
    icrc_store(packet + length, icrc_compute(&flow, id, packet, length));
    packet[length - 1] ^= damaged;
    sent = sendto(self->fd, packet, length + ICRC_SIZE, 0, &self->path.remote.sa, size_of(&self->path.remote));
    ck_assert_msg(sent == (ssize_t)(length + ICRC_SIZE), "sendto: %zd, %s", sent, strerror(errno));
}
