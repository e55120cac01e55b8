/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.c - making and freeing a connection: its queue pair and buffers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "core/base/handle.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/memory/memory.h"
#include "core/queue/nic.h"
#include "core/queue/socket.h"
#include "conn.h"

/* A connection's memory: receive slots, a few bounce buffers and send slots, which only the local device
 * accesses; then the ring buffer, which the peer writes to. */
#define BOUNCES_AT ((size_t)RQ_DEPTH * SLOT_SIZE)
#define SENDS_AT (BOUNCES_AT + (size_t)BOUNCES_OWN * BOUNCE_SIZE)
#define LOCAL_SIZE (SENDS_AT + (size_t)SQ_DEPTH * SLOT_SIZE)
#define RNR_RETRY_COUNT 7 /* retry without limit; never needed, because credits match the posted receives */

static struct handle_table handles = HANDLE_TABLE_INIT;

inline struct conn *xs_conn_of(uint64_t wr_id)
{
    /* The thread that polls holds the lock of the socket's queue, and a connection is freed only under that
     * lock. */
    return xs_handle_find(&handles, (void *)(uintptr_t)conn_name(wr_id));
}

void xs_conn_reset(void)
{
    xs_handle_reset(&handles);
    xs_ring_reset();
}

bool xs_conn_post_receives(struct conn *conn, uint32_t slot, uint32_t count)
{
    struct ibv_sge sge[RECEIVES_AT_ONCE];
    struct ibv_recv_wr wr[RECEIVES_AT_ONCE], *bad;

    for (uint32_t i = 0; i < count; i++) {
        sge[i] = (struct ibv_sge){
            .addr = (uintptr_t)conn->memory.start + (uint64_t)((slot + i) % conn->limits.depth) * SLOT_SIZE,
            .length = SLOT_SIZE,
            .lkey = conn->memory.mr->lkey,
        };
        wr[i] = (struct ibv_recv_wr){
            .wr_id = (uintptr_t)conn->handle | RECEIVE_BIT,
            .next = i + 1 < count ? &wr[i + 1] : NULL,
            .sg_list = &sge[i],
            .num_sge = 1,
        };
    }
    bool posted = ibv_post_recv(conn->qp, wr, &bad) == 0;

    conn->rq.posted += posted ? count : (uint32_t)(bad - wr);
    return posted;
}

/* Entries of the send and of the receive queue. A power of 2, so that slot numbers stay right when a counter
 * wraps around. */
static uint32_t depth_of(const struct nic *nic)
{
    uint32_t depth = RQ_DEPTH;

    while (depth > nic->max_wr || depth * 2 > (uint32_t)nic->max_cqe)
        depth /= 2;
    return depth;
}

static uint32_t least_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A message of a SEQPACKET is one send. */
static uint32_t gather_max(const struct conn *conn)
{
    uint32_t most = conn->device == &soft_device ? GATHER_MAX : GATHER_MAX_NIC;

    return sock_is_stream(conn->sock) ? least_u32(conn->nic->max_sge, most) : 1;
}

static int make_qp(struct conn *conn)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = conn->cq->cq,
        .recv_cq = conn->cq->cq,
        .cap = {.max_send_wr = conn->limits.depth,
                .max_recv_wr = conn->limits.depth,
                .max_send_sge = gather_max(conn),
                .max_recv_sge = 1,
                .max_inline_data = SLOT_SIZE},
        .qp_type = IBV_QPT_RC,
    };

    if (conn->device->create_qp(conn->id, conn->domain.pd, &attr) < 0) {
        attr.cap.max_inline_data = 0;
        attr.cap.max_send_sge = 1;
        if (conn->device->create_qp(conn->id, conn->domain.pd, &attr) < 0)
            return -1;
    }
    conn->qp = conn->id->qp;
    conn->limits.max_inline = attr.cap.max_inline_data;
    conn->limits.max_gather =
        least_u32(attr.cap.max_send_sge, gather_max(conn)); /* a device may have more than was asked */
    if (conn->device->check_every_key != NULL)
        conn->device->check_every_key(conn->qp);
    return 0;
}

/* A device that rejects this option keeps its own timeout; so does iWARP, where TCP has one. */
static void set_ack_timeout(struct conn *conn)
{
    uint8_t timeout = ACK_TIMEOUT;

    if (conn->device->set_option(conn->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                                 sizeof(timeout)) < 0)
        xs_log("device %s keeps its own acknowledgement timeout: %s", conn->device->name, strerror(errno));
}

static void size_recv_ring(struct conn *conn)
{
    const struct sock *sock = conn->sock;

    conn->ring.size = xs_recv_ring_size(sock);
    conn->ring.mask = conn->ring.size - 1;
    conn->ring.ack_due = conn->ring.size / 4;
}

/* Choose the address by which the peer accesses the ring buffer (IOVA). Every client that can connect gets it in the
 * hello, so it must not reveal where this process maps its memory. It is random, because a token of exported memory
 * names its connection by it. Its offset within a page equals the buffer's, as RDMA adapters require. */
static int choose_iova(struct conn *conn)
{
    uint64_t number;
    int error = random_bytes(&number, sizeof number);

    if (error != 0) {
        errno = error;
        return -1;
    }
    conn->ring.iova = (number & UINT64_C(0x7fffffff0000)) + (uint64_t)(conn->ring.data - conn->memory.start);
    return 0;
}

static int make_buffers(struct conn *conn)
{
    size_recv_ring(conn);
    conn->memory.size = LOCAL_SIZE + conn->ring.size;
    conn->memory.start =
        mmap(NULL, conn->memory.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (conn->memory.start == MAP_FAILED) {
        conn->memory.start = NULL;
        errno = ENOMEM; /* also for EAGAIN: mlockall() is in effect, and RLIMIT_MEMLOCK is exceeded */
        return -1;
    }
    conn->memory.send_slots = conn->memory.start + SENDS_AT;
    conn->ring.data = conn->memory.start + LOCAL_SIZE;
    conn->memory.mr = xs_register(&conn->domain, conn->memory.start, LOCAL_SIZE, IBV_ACCESS_LOCAL_WRITE);
    if (conn->memory.mr == NULL)
        return -1;
    for (int i = 0; i < BOUNCES_OWN; i++)
        xs_bounce_add(&conn->domain, &conn->memory.bounces[i],
                      conn->memory.start + BOUNCES_AT + (size_t)i * BOUNCE_SIZE, conn->memory.mr);
    if (choose_iova(conn) < 0)
        return -1;
    conn->ring.initial_mr = xs_register_at(&conn->domain, conn->ring.data, conn->ring.size, conn->ring.iova,
                                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return conn->ring.initial_mr != NULL ? 0 : -1;
}

/* Registration touched every page. Most connections use few of these pages, so return them to the kernel. */
static void give_back_pages(struct conn *conn)
{
    if (conn->device->holds_no_pages)
        madvise(conn->memory.start, conn->memory.size, MADV_DONTNEED); /* on failure the pages stay allocated */
}

uint32_t xs_recv_ring_size(const struct sock *sock)
{
    bool is_chosen = sock_is_stream(sock) && sock->options.receive_buffer != 0;

    return is_chosen ? sock->options.receive_buffer : RECV_RING_SIZE;
}

struct conn *xs_conn_new(struct sock *sock, struct rdma_cm_id *id, const struct device *device)
{
    struct conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL)
        return NULL;
    conn->sock = sock;
    conn->adverts.used = true;
    conn->peer_adverts.skip = 1; /* no send waits before the peer's first advertisement (awaits_advert()) */
    conn->device = device;
    conn->id = id;
    STAILQ_INIT(&conn->tx.sends);
    STAILQ_INIT(&conn->rx.recvs);
    STAILQ_INIT(&conn->onesided.ops);
    LIST_INIT(&conn->onesided.exports);
    conn->nic = xs_nic_get(atomic_load(&sock->home), device, id->verbs, id->port_num);
    if (conn->nic == NULL) {
        free(conn);
        return NULL;
    }
    conn->nic->conns++;
    conn->onesided.max_reads_out = conn->onesided.max_reads_in = conn->nic->max_reads;
    conn->handle = xs_handle_make(&handles, conn);
    if (conn->handle == NULL)
        goto fail;
    conn->limits.depth = depth_of(conn->nic);
    if (conn->limits.depth < DEPTH_MIN) {
        xs_explain(ENODEV, "device %s: its queues have %u entries, need %d", id->verbs->device->name,
                   conn->limits.depth, DEPTH_MIN);
        goto fail;
    }
    conn->cq = xs_nic_cq(conn->nic, (int)conn->limits.depth * 2);
    if (conn->cq == NULL || xs_domain_open(&conn->domain, conn->nic) < 0 || make_qp(conn) < 0 ||
        make_buffers(conn) < 0)
        goto fail;
    give_back_pages(conn);
    set_ack_timeout(conn);
    for (uint32_t slot = 0; slot < conn->limits.depth; slot += RECEIVES_AT_ONCE) {
        if (!xs_conn_post_receives(conn, slot, RECEIVES_AT_ONCE))
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
    xs_nic_forget(conn->nic, conn);
    xs_stats_add(&conn->nic->queue->gone, conn);
    if (conn->is_touched)
        LIST_REMOVE(conn, touched);
    xs_batch_release(conn);
    if (conn->qp != NULL)
        conn->device->destroy_qp(conn->id);
    xs_export_end_all(conn);
    if (conn->cq != NULL)
        xs_nic_cq_release(conn->cq, (int)conn->limits.depth * 2);
    xs_ring_free(conn);
    if (conn->ring.initial_mr != NULL)
        conn->device->dereg_mr(conn->ring.initial_mr);
    if (conn->memory.mr != NULL)
        conn->device->dereg_mr(conn->memory.mr);
    if (conn->domain.pd != NULL)
        xs_domain_close(&conn->domain);
    if (conn->memory.start != NULL)
        munmap(conn->memory.start, conn->memory.size);
    xs_nic_leave(conn->nic);
    free(conn);
    errno = saved;
}

struct rdma_conn_param xs_conn_param(const struct conn *conn, uint8_t hello[HELLO_SIZE])
{
    const struct hello mine = {
        .magic = HELLO_MAGIC,
        .version = HELLO_VERSION,
        .socktype = (uint8_t)conn->sock->type,
        .flags = (conn->nic->immediate ? HELLO_IMM_CREDITS : HELLO_NO_IMMEDIATE) | HELLO_EMPTY_END |
                 HELLO_RING_GROWS,
        .credits = conn->limits.depth,
        .adverts = ADVERTS_MAX,
        .recv_ring_size = (uint32_t)conn->ring.size,
        .recv_ring_rkey = conn->ring.initial_mr->rkey,
        .recv_ring_addr = conn->ring.iova,
    };

    xs_hello_pack(&mine, hello);
    return (struct rdma_conn_param){
        .private_data = hello,
        .private_data_len = HELLO_SIZE,
        .responder_resources = conn->onesided.max_reads_in,
        .initiator_depth = conn->onesided.max_reads_out,
        .retry_count = RETRY_COUNT,
        .rnr_retry_count = RNR_RETRY_COUNT,
    };
}

void xs_conn_reads(struct conn *conn, uint8_t wanted, uint8_t served)
{
    if (wanted < conn->onesided.max_reads_in)
        conn->onesided.max_reads_in = wanted;
    if (served < conn->onesided.max_reads_out)
        conn->onesided.max_reads_out = served;
}

void xs_conn_peer(struct conn *conn, const struct hello *peer)
{
    conn->peer = *peer;
    conn->credits.available += peer->credits;
    conn->adverts.max = conn_adverts_max(conn);
    conn->limits.immediate = conn->nic->immediate && (peer->flags & HELLO_NO_IMMEDIATE) == 0;
    xs_ring_begin(conn);
}

/* ---- Counters ------------------------------------------------------------------------------------ */

static uint64_t retransmissions_of(const struct conn *conn)
{
    if (conn->device->retransmitted == NULL)
        return EXS_STATS_UNKNOWN;
    return conn->qp != NULL ? conn->device->retransmitted(conn->qp) : 0;
}

/* If one connection does not report a value, the sum is unknown. */
static uint64_t known_sum(uint64_t a, uint64_t b)
{
    return a == EXS_STATS_UNKNOWN || b == EXS_STATS_UNKNOWN ? EXS_STATS_UNKNOWN : a + b;
}

void xs_stats_add(exs_stats_t *stats, const struct conn *conn)
{
    stats->exs_sends += conn->tx.started;
    stats->exs_receives += conn->rx.started;
    stats->exs_sent += conn->tx.position;
    stats->exs_sent_direct += conn->tx.position - conn->tx.ring_sent;
    stats->exs_received += conn->rx.position;
    stats->exs_received_direct += conn->rx.position - conn->ring.in;
    stats->exs_bytes_read += conn->onesided.bytes_read;
    stats->exs_bytes_written += conn->onesided.bytes_written;
    stats->exs_retransmissions = known_sum(stats->exs_retransmissions, retransmissions_of(conn));
}
