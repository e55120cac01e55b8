/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: making the queue pair and its buffers, completions, breaking and draining. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "conn.h"
#include "handle.h"
#include "library.h"
#include "memory.h"
#include "nic.h"
#include "sock.h"

#define SLOTS_SIZE ((RQ_DEPTH + SQ_DEPTH) * SLOT_SIZE)
#define REGION_SIZE (SLOTS_SIZE + HIDDEN_SIZE)
#define ACK_TIMEOUT 17    /* the device's code of 0.54 s: 4.096 us * 2^17 */
#define RETRY_COUNT 6     /* times it sends again, before the peer is gone; 7 is for ever to rxe */
#define RNR_RETRY_COUNT 7 /* for ever; never needed, since credits match posted receives */
#define RECEIVE_BIT (UINT64_C(1) << 63) /* of a work request id: a receive */

static struct handle_table handles = HANDLE_TABLE_INIT;

struct conn *xs_conn_of(uint64_t wr_id, bool *receive)
{
    *receive = (wr_id & RECEIVE_BIT) != 0;
    return xs_handle_find(&handles, (void *)(uintptr_t)(wr_id & ~RECEIVE_BIT));
}

void xs_conn_reset(void)
{
    xs_handle_reset(&handles);
}

static bool post_receive(struct conn *conn, uint32_t slot)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)conn->slots + (uint64_t)slot * SLOT_SIZE,
        .length = SLOT_SIZE,
        .lkey = conn->slots_mr->lkey,
    };
    struct ibv_recv_wr wr = {.wr_id = (uintptr_t)conn->handle | RECEIVE_BIT, .sg_list = &sge, .num_sge = 1},
                       *bad;

    if (ibv_post_recv(conn->qp, &wr, &bad) != 0)
        return false;
    conn->received++;
    return true;
}

/* Entries of a queue. A power of 2, so that counts that wrap around still name the same slots. */
static uint32_t depth_of(const struct nic *nic)
{
    uint32_t depth = RQ_DEPTH;

    while (depth > nic->max_wr || depth * 2 > (uint32_t)nic->max_cqe)
        depth /= 2;
    return depth;
}

static int make_qp(struct conn *conn)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = conn->cq->cq,
        .recv_cq = conn->cq->cq,
        .cap = {.max_send_wr = conn->depth,
                .max_recv_wr = conn->depth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = SLOT_SIZE},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };

    if (conn->device->create_qp(conn->id, conn->nic->pd, &attr) < 0) {
        attr.cap.max_inline_data = 0;
        if (conn->device->create_qp(conn->id, conn->nic->pd, &attr) < 0)
            return -1;
    }
    conn->qp = conn->id->qp;
    conn->max_inline = attr.cap.max_inline_data;
    return 0;
}

/* A device that takes no time-out of ours (iWARP's TCP has its own) keeps the one it has. */
static void set_ack_timeout(struct conn *conn)
{
    uint8_t timeout = ACK_TIMEOUT;

    if (conn->device->set_option(conn->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                                 sizeof(timeout)) < 0)
        xs_log("device %s keeps its own time-out of acknowledgements: %s", conn->device->name, strerror(errno));
}

static int make_buffers(struct conn *conn)
{
    conn->slots = mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (conn->slots == MAP_FAILED) {
        conn->slots = NULL;
        return -1;
    }
    conn->hidden = conn->slots + SLOTS_SIZE;
    conn->slots_mr = xs_register(conn->nic, conn->slots, SLOTS_SIZE, IBV_ACCESS_LOCAL_WRITE);
    if (conn->slots_mr == NULL)
        return -1;
    conn->hidden_mr =
        xs_register(conn->nic, conn->hidden, HIDDEN_SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return conn->hidden_mr != NULL ? 0 : -1;
}

struct conn *xs_conn_new(struct sock *sock, struct rdma_cm_id *id, const struct device *device)
{
    struct conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL)
        return NULL;
    conn->sock = sock;
    conn->device = device;
    conn->id = id;
    STAILQ_INIT(&conn->sends);
    STAILQ_INIT(&conn->recvs);
    STAILQ_INIT(&conn->onesided);
    LIST_INIT(&conn->exports);
    conn->nic = xs_nic_get(atomic_load(&sock->home), device, id->verbs, id->port_num);
    if (conn->nic == NULL) {
        free(conn);
        return NULL;
    }
    conn->nic->conns++;
    conn->max_reads_out = conn->max_reads_in = conn->nic->max_reads;
    conn->handle = xs_handle_make(&handles, conn);
    if (conn->handle == NULL)
        goto fail;
    conn->depth = depth_of(conn->nic);
    if (conn->depth < DEPTH_MIN) {
        xs_log("device %s has queues of %u entries, and %d are needed", id->verbs->device->name, conn->depth,
               DEPTH_MIN);
        errno = ENODEV;
        goto fail;
    }
    conn->cq = xs_nic_cq(conn->nic, (int)conn->depth * 2);
    if (conn->cq == NULL || make_qp(conn) < 0 || make_buffers(conn) < 0)
        goto fail;
    set_ack_timeout(conn);
    for (uint32_t slot = 0; slot < conn->depth; slot++) {
        if (!post_receive(conn, slot))
            goto fail;
    }
    return conn;
fail:
    xs_log("no connection on device %s: %s", device->name, strerror(errno));
    xs_conn_free(conn);
    return NULL;
}

void xs_conn_free(struct conn *conn)
{
    int saved = errno;

    if (conn->handle != NULL)
        xs_handle_take(&handles, conn->handle);
    if (conn->is_touched)
        LIST_REMOVE(conn, touched);
    if (conn->qp != NULL)
        conn->device->destroy_qp(conn->id);
    xs_export_end_all(conn);
    if (conn->cq != NULL)
        xs_nic_cq_release(conn->cq, (int)conn->depth * 2);
    if (conn->hidden_mr != NULL)
        conn->device->dereg_mr(conn->hidden_mr);
    if (conn->slots_mr != NULL)
        conn->device->dereg_mr(conn->slots_mr);
    if (conn->slots != NULL)
        munmap(conn->slots, REGION_SIZE);
    conn->nic->conns--;
    free(conn);
    errno = saved;
}

struct rdma_conn_param xs_conn_param(const struct conn *conn, uint8_t hello[HELLO_SIZE])
{
    const struct hello mine = {
        .magic = HELLO_MAGIC,
        .version = HELLO_VERSION,
        .socktype = (uint8_t)conn->sock->type,
        .flags = conn->nic->immediate ? 0 : HELLO_NO_IMMEDIATE,
        .credits = conn->depth,
        .adverts = ADVERTS_MAX,
        .hidden_size = HIDDEN_SIZE,
        .hidden_rkey = conn->hidden_mr->rkey,
        .hidden_addr = (uintptr_t)conn->hidden,
    };

    xs_hello_pack(&mine, hello);
    return (struct rdma_conn_param){
        .private_data = hello,
        .private_data_len = HELLO_SIZE,
        .responder_resources = conn->max_reads_in,
        .initiator_depth = conn->max_reads_out,
        .retry_count = RETRY_COUNT,
        .rnr_retry_count = RNR_RETRY_COUNT,
    };
}

void xs_conn_reads(struct conn *conn, uint8_t wanted, uint8_t served)
{
    if (wanted < conn->max_reads_in)
        conn->max_reads_in = wanted;
    if (served < conn->max_reads_out)
        conn->max_reads_out = served;
}

void xs_conn_peer(struct conn *conn, const struct hello *peer)
{
    conn->peer = *peer;
    conn->credits += peer->credits;
    conn->adverts_max = peer->adverts < ADVERTS_MAX ? peer->adverts : ADVERTS_MAX;
    conn->immediate = conn->nic->immediate && (peer->flags & HELLO_NO_IMMEDIATE) == 0;
}

/* ---- Breaking ---------------------------------------------------------------------------- */

void xs_conn_fail(struct conn *conn, int error)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (conn->error != 0)
        return;
    conn->error = error;
    /* From here on every work request comes back flushed, and the peer learns that it is over. */
    if (conn->device->disconnect(conn->id) < 0)
        conn->device->modify_qp(conn->qp, &attr, IBV_QP_STATE);
}

/* What an operation gets when its connection broke. */
static int failed_with(const struct conn *conn)
{
    return conn->sock->state == SOCK_CLOSING ? ECANCELED : conn->error;
}

static void complete_all(struct conn *conn)
{
    int error = failed_with(conn);
    struct op *op;

    xs_tx_finish_done(conn); /* what the peer has, it has */
    while ((op = STAILQ_FIRST(&conn->sends)) != NULL)
        xs_tx_finish(conn, op, op->error != 0 ? op->error : error);
    conn->sending = NULL;
    xs_onesided_finish(conn, error);
    xs_rx_run(conn); /* what arrived before is still delivered, and an orderly end is one */
    while (!STAILQ_EMPTY(&conn->recvs))
        xs_rx_finish(conn, STAILQ_FIRST(&conn->recvs), error);
}

/* The device holds none of our buffers any more: now they can be given back. */
static void drain(struct conn *conn)
{
    if (conn->drained || conn->error == 0 || conn->received > 0 || conn->sq_head != conn->sq_tail)
        return;
    conn->drained = true;
    complete_all(conn);
    if (conn->sock->state == SOCK_CLOSING)
        xs_close_step(conn->sock);
}

/* ---- Work requests and completions ---------------------------------------------------------- */

bool xs_conn_post(struct conn *conn, struct ibv_send_wr *wr, const struct posted *posted)
{
    struct ibv_send_wr *bad;

    wr->wr_id = (uintptr_t)conn->handle;
    if (wr->num_sge > 0 && wr->sg_list->length <= conn->max_inline && wr->opcode != IBV_WR_RDMA_READ)
        wr->send_flags |= IBV_SEND_INLINE;
    if (ibv_post_send(conn->qp, wr, &bad) != 0) {
        xs_conn_fail(conn, ECONNRESET);
        return false;
    }
    conn->posted[conn->sq_tail++ % SQ_DEPTH] = *posted;
    return true;
}

static int status_errno(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return ETIMEDOUT;
    default:
        return ECONNRESET;
    }
}

static void report(const struct conn *conn, const struct ibv_wc *wc)
{
    char peer[ADDRESS_TEXT];

    xs_address_text(&conn->id->route.addr.dst_addr, peer);
    if (wc->status == IBV_WC_RETRY_EXC_ERR)
        xs_log("connection %d: %s acknowledged nothing by device %s, sent %d times with a time-out of %.2f s: "
               "is the host there, and the network between?",
               conn->sock->number, peer, conn->nic->context->device->name, RETRY_COUNT + 1,
               4.096e-6 * (1 << ACK_TIMEOUT));
    else
        xs_log("connection %d to %s by device %s: %s", conn->sock->number, peer,
               conn->nic->context->device->name, conn->device->wc_status_str(wc->status));
}

static void send_completion(struct conn *conn, const struct ibv_wc *wc)
{
    struct posted posted = conn->posted[conn->sq_head++ % SQ_DEPTH];

    if (wc->status != IBV_WC_SUCCESS) {
        if (posted.op != NULL && posted.op->error == 0 && wc->status == IBV_WC_LOC_PROT_ERR)
            posted.op->error = posted.op->files != NULL ? EIO : EFAULT;
        if (wc->status != IBV_WC_WR_FLUSH_ERR)
            report(conn, wc);
        xs_conn_fail(conn, status_errno(wc->status));
        if (posted.kind == POSTED_DATA) {
            posted.op->requests--;
            posted.op->failed = true;
        } else if (posted.kind == POSTED_ONESIDED)
            xs_onesided_completed(conn, &posted, wc);
        return;
    }
    if (posted.kind == POSTED_DATA)
        xs_tx_completed(conn, &posted);
    else if (posted.kind == POSTED_ONESIDED)
        xs_onesided_completed(conn, &posted, wc);
    else if (posted.kind == POSTED_FIN)
        conn->fin_acked = true;
}

static void receive_completion(struct conn *conn, const struct ibv_wc *wc)
{
    uint32_t slot = conn->next_slot++ % conn->depth;

    conn->received--;
    if (wc->status != IBV_WC_SUCCESS) {
        if (wc->status != IBV_WC_WR_FLUSH_ERR)
            report(conn, wc);
        xs_conn_fail(conn, status_errno(wc->status));
        return;
    }
    if (conn->owed == conn->depth)
        xs_violation(conn, "more messages than it had credits for");
    else if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        xs_rx_data(conn, be32toh(wc->imm_data));
    else if (wc->wc_flags & IBV_WC_WITH_IMM)
        xs_violation(conn, "a control message with immediate data");
    else
        xs_control_received(conn, conn->slots + (size_t)slot * SLOT_SIZE, wc->byte_len);
    if (conn->error != 0)
        return;
    if (post_receive(conn, slot))
        conn->owed++;
    else
        xs_conn_fail(conn, ECONNRESET);
}

void xs_conn_completion(struct conn *conn, const struct ibv_wc *wc, bool receive)
{
    if (receive)
        receive_completion(conn, wc);
    else
        send_completion(conn, wc);
}

void xs_conn_run(struct conn *conn)
{
    if (conn->error == 0) {
        xs_rx_run(conn);
        if (conn->established) {
            xs_control_run(conn);
            xs_tx_run(conn);
            xs_control_run(conn); /* FIN behind the data just sent */
        }
    }
    if (conn->error != 0)
        drain(conn);
    else if (conn->sock->state == SOCK_CLOSING)
        xs_close_step(conn->sock);
}
