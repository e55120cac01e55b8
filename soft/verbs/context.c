/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * context.c - device contexts, in a form that code written for rdma-core can hold without harm.
 *
 * Programs built against other releases of rdma-core read the size in front of the context before they use newer calls.
 * Libraries of real devices look behind the ibv_device for their mark. rdma-core's own entry points, which must not be
 * called with this context, jump through a private part, which here contains a function that refuses the call.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "soft/engine/engine.h"
#include "soft/engine/group.h"
#include "verbs.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "soft/lock.h"

#define QPN_BITS 24
#define VENDOR 0xffffff /* As the kernel's software devices: an OUI that no vendor has. */
/* Operations for which on-demand paging is supported. */
#define ODP_DATAGRAM (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)
#define ODP_RELIABLE (ODP_DATAGRAM | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC)
#define REFUSALS 1024 /* more than rdma-core's private part has */

static struct {
    struct ibv_device device;
    uint8_t behind[1024]; /* Where a real device's library has its mark: zeroed here. */
} soft0 = {
    .device = {.node_type = IBV_NODE_CA,
               .transport_type = IBV_TRANSPORT_IB,
               .name = "soft0",
               .dev_name = "soft0",
               .ibdev_path = "/sys/class/infiniband/soft0"},
};

struct ibv_device *soft_the_device(void)
{
    return &soft0.device;
}

static void refuse_call(void)
{
    xs_warn("a libibverbs call was made on the software RDMA device: call through EXS's device table, or run "
            "the program under exs-soft-run");
    abort();
}

/* In place of rdma-core's private part, for all contexts. */
static void (*refusal[REFUSALS])(void);
static pthread_once_t refusal_once = PTHREAD_ONCE_INIT;

static void make_refusal(void)
{
    for (size_t i = 0; i < REFUSALS; i++)
        refusal[i] = refuse_call;
}

/* ---- Queries ---- */

int soft_query_device(struct ibv_context *ibv, struct ibv_device_attr *attr)
{
    uint32_t numbers = soft_context_of(ibv)->last_qpn - soft_context_of(ibv)->first_qpn + 1;

    *attr = (struct ibv_device_attr){
        .fw_ver = "soft",
        .node_guid = soft_context_of(ibv)->node_guid,
        .sys_image_guid = soft_context_of(ibv)->node_guid,
        .max_mr_size = UINT64_MAX,
        .vendor_id = VENDOR,
        .page_size_cap = (uint64_t)sysconf(_SC_PAGESIZE),
        .max_qp = numbers < SOFT_MAX_QP ? (int)numbers : SOFT_MAX_QP,
        .max_qp_wr = SOFT_MAX_WR,
        .max_sge = SOFT_MAX_SGE,
        .max_sge_rd = SOFT_MAX_SGE,
        .max_cq = (int)soft_object_limit(SOFT_CQ),
        .max_cqe = SOFT_MAX_CQE,
        .max_mr = (int)soft_object_limit(SOFT_MR),
        .max_pd = (int)soft_object_limit(SOFT_PD),
        .max_mw = (int)soft_object_limit(SOFT_MW),
        .max_ah = (int)soft_object_limit(SOFT_AH),
        .max_srq = (int)soft_object_limit(SOFT_SRQ),
        .max_mcast_grp = SOFT_MAX_GROUPS,
        .max_mcast_qp_attach = SOFT_MAX_GROUP_QPS,
        .max_total_mcast_qp_attach = SOFT_MAX_GROUPS * SOFT_MAX_GROUP_QPS,
        .max_srq_wr = SOFT_MAX_WR,
        .max_srq_sge = SOFT_MAX_SGE,
        .device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
                            IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                            IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC,
        .max_qp_rd_atom = SOFT_MAX_READS,
        .max_res_rd_atom = SOFT_MAX_READS * SOFT_MAX_QP,
        .max_qp_init_rd_atom = SOFT_MAX_READS,
        .atomic_cap = IBV_ATOMIC_GLOB,
        .max_pkeys = 1,
        .phys_port_cnt = 1,
    };
    return 0;
}

int soft_query_port(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *attr)
{
    const struct soft_names *names = &soft_context_of(ibv)->names;

    if (port != 1)
        return EINVAL;
    *attr = (struct ibv_port_attr){
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = names->mtu,
        .gid_tbl_len = SOFT_GIDS,
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = SOFT_MAX_MESSAGE,
        .pkey_tbl_len = 1,
        .lid = names->lid,
        .max_vl_num = 1,
        .active_width = 2,  /* 4 lanes */
        .active_speed = 32, /* of 25 Gb/s */
        .phys_state = 5,    /* link up */
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };
    return 0;
}

static int query_port_sized(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *attr, size_t length)
{
    struct ibv_port_attr whole;
    int error = soft_query_port(ibv, port, &whole);

    if (error == 0)
        soft_give(attr, length, &whole, sizeof whole);
    return error;
}

/* Programs older than port_cap_flags2 use a shorter struct. */
static int query_port_compat(struct ibv_context *ibv, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    return query_port_sized(ibv, port, (struct ibv_port_attr *)attr,
                            offsetof(struct ibv_port_attr, port_cap_flags2));
}

static int query_device_ex(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t length)
{
    struct ibv_device_attr_ex whole = {
        .odp_caps = {.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
                     .per_transport_caps = {.rc_odp_caps = ODP_RELIABLE,
                                            .uc_odp_caps = ODP_DATAGRAM | IBV_ODP_SUPPORT_WRITE,
                                            .ud_odp_caps = ODP_DATAGRAM}},
        .xrc_odp_caps = ODP_RELIABLE,
        .phys_port_cnt_ex = 1,
    };

    if (input != NULL && input->comp_mask != 0)
        return EINVAL;
    soft_query_device(ibv, &whole.orig_attr);
    whole.device_cap_flags_ex = whole.orig_attr.device_cap_flags;
    soft_give(attr, length, &whole, sizeof whole);
    return 0;
}

/* ---- Opening and closing ---- */

static void fill_verbs(struct soft_context *context)
{
    struct verbs_context *verbs = &context->verbs;
    struct ibv_context *ibv = &verbs->context;

    verbs->sz = sizeof *verbs;
    verbs->priv = (void *)refusal;
    verbs->query_port = query_port_sized;
    verbs->query_device_ex = query_device_ex;
    verbs->advise_mr = soft_advise_mr;
    verbs->create_srq_ex = soft_create_srq_ex;
    verbs->get_srq_num = soft_get_srq_num;
    verbs->open_xrcd = soft_open_xrcd;
    verbs->close_xrcd = soft_close_xrcd;
    verbs->create_cq_ex = soft_create_cq_ex;
    verbs->create_qp_ex = soft_create_qp_ex;
    ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
    ibv->device = &soft0.device;
    ibv->cmd_fd = -1;
    ibv->num_comp_vectors = 1;
    ibv->ops._compat_query_device = soft_query_device;
    ibv->ops._compat_query_port = query_port_compat;
    ibv->ops.poll_cq = soft_poll_cq;
    ibv->ops.req_notify_cq = soft_req_notify_cq;
    ibv->ops.post_send = soft_post_send;
    ibv->ops.post_recv = soft_post_recv;
    ibv->ops.post_srq_recv = soft_post_srq_recv;
    ibv->ops.alloc_mw = soft_alloc_mw;
    ibv->ops.dealloc_mw = soft_dealloc_mw;
    ibv->ops.bind_mw = soft_bind_mw;
    pthread_mutex_init(&ibv->mutex, NULL);
}

/* Mixes the bits of a number (splitmix64). */
static uint64_t mix_bits(uint64_t seed)
{
    seed += UINT64_C(0x9e3779b97f4a7c15);
    seed = (seed ^ seed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    seed = (seed ^ seed >> 27) * UINT64_C(0x94d049bb133111eb);
    return seed ^ seed >> 31;
}

#define SECRETS 9

/* Fills in numbers that only this process knows, unless a test opened the context with a seed. Early in a boot it waits
 * until the kernel has random numbers, because keys must not be guessable. 0 or an errno. */
static int make_secrets(uint64_t secrets[SECRETS], uint64_t seed)
{
    for (uint64_t i = 0; seed != 0 && i < SECRETS; i++)
        secrets[i] = mix_bits(seed + i);
    return seed == 0 ? random_bytes(secrets, SECRETS * sizeof *secrets) : 0;
}

static void release_context(struct soft_context *context)
{
    doorbell_close(&context->async);
    soft_burst_end(&context->burst);
    free(context->buckets);
    free(context->heap);
    soft_keys_free(&context->keys);
    soft_keys_free(&context->windows);
    free(context->watched);
    free(context->objects.slots);
    for (unsigned i = 0; i < SOFT_GRAVES; i++)
        free(context->objects.graves[i]);
    free(context);
}

struct ibv_context *soft_open(struct soft_wire *wire, struct soft_clock *clock, uint64_t seed)
{
    struct soft_context *context = calloc(1, sizeof *context);
    uint64_t secrets[SECRETS];
    int error = context == NULL ? ENOMEM : make_secrets(secrets, seed);

    if (error != 0) {
        free(context);
        errno = error;
        return NULL;
    }
    context->wire = wire;
    context->clock = clock;
    TAILQ_INIT(&context->work);
    TAILQ_INIT(&context->waiting);
    TAILQ_INIT(&context->events);
    context->guid = secrets[0];
    context->node_guid = context->guid;
    context->first_qpn = SOFT_QPN_MIN;
    context->last_qpn = SOFT_QPN_MAX;
    context->qpns = (struct soft_shuffle){.key = {secrets[1], secrets[2]}, .bits = QPN_BITS};
    context->keys.shuffle = (struct soft_shuffle){.key = {secrets[3], secrets[4]}, .bits = 32};
    context->windows.shuffle = (struct soft_shuffle){.key = {secrets[5], secrets[6]}, .bits = 24};
    context->srqns = (struct soft_shuffle){.key = {secrets[7], secrets[8]}, .bits = 24};
    context->names.mtu = IBV_MTU_4096;
    pthread_once(&refusal_once, make_refusal);
    context->async = (struct doorbell)DOORBELL_INIT(DOORBELL_SHOWN);
    context->verbs.context.async_fd = -1;
    if (!soft_burst_begin(&context->burst)) {
        release_context(context);
        errno = ENOMEM;
        return NULL;
    }
    mutex_init(&context->lock);
    fill_verbs(context);
    return &context->verbs.context;
}

int soft_async_fd(struct ibv_context *ibv)
{
    struct soft_context *context = soft_context_of(ibv);
    int result = 0;

    soft_lock(ibv);
    if (context->async.fd < 0)
        result = doorbell_make(&context->async);
    ibv->async_fd = ibv->cmd_fd = context->async.fd; /* no kernel driver: any open descriptor */
    soft_unlock(ibv);
    return result;
}

int soft_close(struct ibv_context *ibv)
{
    struct soft_context *context = soft_context_of(ibv);
    bool busy;

    soft_lock(ibv);
    busy = context->objects.count > 0;
    soft_unlock(ibv);
    if (busy)
        return EBUSY;
    pthread_mutex_destroy(&ibv->mutex);
    release_context(context);
    return 0;
}

struct soft_wire *soft_wire_of(struct ibv_context *ibv)
{
    return soft_context_of(ibv)->wire;
}

void soft_lock(struct ibv_context *ibv)
{
    if (soft_cancellation_deferred)
        soft_cancellation_off();
    mutex_lock(&soft_context_of(ibv)->lock);
}

bool soft_trylock(struct ibv_context *ibv)
{
    if (soft_cancellation_deferred)
        soft_cancellation_off();
    if (mutex_trylock(&soft_context_of(ibv)->lock))
        return true;
    if (soft_cancellation_deferred)
        soft_cancellation_on();
    return false;
}

void soft_unlock(struct ibv_context *ibv)
{
    mutex_unlock(&soft_context_of(ibv)->lock);
    if (soft_cancellation_deferred)
        soft_cancellation_on();
}

const struct soft_counters *soft_counters_of(struct ibv_context *ibv)
{
    return &soft_context_of(ibv)->counters;
}

void soft_check_every_key(struct ibv_qp *qp)
{
    soft_lock(qp->context);
    soft_qp_of(qp)->checks_every_key = true;
    soft_unlock(qp->context);
}

uint64_t soft_query_retransmitted(struct ibv_qp *qp)
{
    soft_lock(qp->context);
    uint64_t count = soft_qp_of(qp)->req.retransmitted;

    soft_unlock(qp->context);
    return count;
}

void soft_query_counters(struct ibv_context *ibv, struct soft_counters *counters)
{
    soft_lock(ibv);
    *counters = soft_context_of(ibv)->counters;
    soft_unlock(ibv);
}
