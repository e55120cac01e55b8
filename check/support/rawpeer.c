/* SPDX-License-Identifier: BSD-2-Clause */
/* rawpeer.c - see rawpeer.h. */
#include "rawpeer.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>

#define SLOT 128 /* bytes of a message */
#define MEMORY (RAW_RECV_RING + RAW_ROOM + 2 * RAW_DEPTH * SLOT)
#define RAW_PRIVATE 56 /* bytes of private data in a request */
#define RESOLVE_MS 5000
#define RECEIVE (UINT64_C(1) << 32) /* flag of a work request ID */
#define ALL_ACCESS                                                                                             \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static uint8_t *slot_in(const struct raw *raw, int number)
{
    return raw->room + RAW_ROOM + (size_t)(number % RAW_DEPTH) * SLOT;
}

static uint8_t *slot_out(const struct raw *raw)
{
    return slot_in(raw, 0) + (size_t)(RAW_DEPTH + raw->sent % RAW_DEPTH) * SLOT;
}

/* ---- Collecting events and messages ---------------------------------------------------- */

static void post_receive(struct raw *raw, int number)
{
    struct ibv_sge sge = {(uintptr_t)slot_in(raw, number), SLOT, raw->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = RECEIVE | (uint32_t)number, .sg_list = &sge, .num_sge = 1}, *bad;

    ck_assert_int_eq(ibv_post_recv(raw->id->qp, &wr, &bad), 0);
}

/* Messages of EXS must always be valid. */
static void take_message(struct raw *raw, const struct ibv_wc *wc)
{
    int number = (int)(wc->wr_id & ~RECEIVE);
    struct raw_message message = {.data = (wc->wc_flags & IBV_WC_WITH_IMM) != 0, .imm = be32toh(wc->imm_data)};

    if (wc->status != IBV_WC_SUCCESS)
        return;
    if (message.imm & IMM_CREDITS)
        message.imm &= ~(IMM_CREDITS | IMM_CREDITS_MASK);
    ck_assert(message.data || xs_control_unpack(&message.control, slot_in(raw, number), wc->byte_len));
    ck_assert_int_lt(raw->message_count, RAW_DEPTH);
    raw->messages[raw->message_count++] = message;
    post_receive(raw, number);
}

static void take_completion(struct raw *raw, const struct ibv_wc *wc)
{
    if (wc->wr_id & RECEIVE) {
        take_message(raw, wc);
        return;
    }
    raw->done++;
    if (raw->status == IBV_WC_SUCCESS)
        raw->status = wc->status;
}

static void take_event(struct raw *raw, const struct rdma_cm_event *event)
{
    struct raw_event taken = {.type = event->event, .status = event->status, .id = event->id};

    if (event->param.conn.private_data != NULL) {
        taken.length = event->param.conn.private_data_len;
        memcpy(taken.private_data, event->param.conn.private_data, taken.length);
    }
    ck_assert_int_lt(raw->event_count, COUNT(raw->events));
    raw->events[raw->event_count++] = taken;
}

static void collect(struct raw *raw)
{
    struct rdma_cm_event *event;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    while (raw->device->get_cm_event(raw->channel, &event) == 0) {
        take_event(raw, event);
        must(raw->device->ack_cm_event(event));
    }
    if (raw->cq == NULL)
        return;
    if (raw->device->get_cq_event(raw->completions, &cq, &context) == 0)
        raw->device->ack_cq_events(cq, 1);
    ck_assert_int_eq(ibv_req_notify_cq(raw->cq, 0), 0);
    while (ibv_poll_cq(raw->cq, 1, &wc) == 1)
        take_completion(raw, &wc);
}

/* Waits until something happens at either end. */
static void rest(struct raw *raw, int ms)
{
    struct pollfd wait[] = {{.fd = raw->channel->fd, .events = POLLIN},
                            {.fd = raw->completions ? raw->completions->fd : -1, .events = POLLIN},
                            {.fd = raw->box ? exs_qfd(raw->box->queue) : -1, .events = POLLIN}};

    poll(wait, COUNT(wait), ms);
    if (raw->box)
        inbox_pump(raw->box, 0);
}

#define wait_until(raw, condition, what)                                                                       \
    for (double end_ = (collect(raw), seconds_now() + WAIT_MS / 1e3); !(condition); collect(raw)) {            \
        ck_assert_msg(seconds_now() < end_, "no %s came from EXS", what);                                      \
        rest(raw, 100);                                                                                        \
    }

/* ---- The connection ------------------------------------------------------------------- */

static void make_memory(struct raw *raw)
{
    raw->memory = new_buffer(MEMORY);
    raw->recv_ring = raw->memory;
    raw->room = raw->recv_ring + RAW_RECV_RING;
}

void raw_open(struct raw *raw, struct inbox *box)
{
    *raw = (struct raw){.device = on_rdma() ? &rdma_device : &soft_device,
                        .box = box,
                        .receives = RAW_DEPTH,
                        .rnr_retries = 7,
                        .status = IBV_WC_SUCCESS};
    make_memory(raw);
    raw->channel = raw->device->create_event_channel();
    ck_assert_ptr_nonnull(raw->channel);
    must(fcntl(raw->channel->fd, F_SETFL, fcntl(raw->channel->fd, F_GETFL) | O_NONBLOCK));
}

static void make_qp(struct raw *raw)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = RAW_DEPTH, .max_recv_wr = RAW_DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1};

    raw->pd = raw->device->alloc_pd(raw->id->verbs);
    ck_assert_ptr_nonnull(raw->pd);
    raw->completions = raw->device->create_comp_channel(raw->id->verbs);
    ck_assert_ptr_nonnull(raw->completions);
    must(fcntl(raw->completions->fd, F_SETFL, fcntl(raw->completions->fd, F_GETFL) | O_NONBLOCK));
    raw->cq = raw->device->create_cq(raw->id->verbs, 2 * RAW_DEPTH, NULL, raw->completions, 0);
    ck_assert_ptr_nonnull(raw->cq);
    raw->mr = raw->device->reg_mr(raw->pd, raw->memory, MEMORY, ALL_ACCESS);
    ck_assert_ptr_nonnull(raw->mr);
    attr.send_cq = attr.recv_cq = raw->cq;
    must(raw->device->create_qp(raw->id, raw->pd, &attr));
    for (int i = 0; i < raw->receives; i++)
        post_receive(raw, i);
}

void raw_close(struct raw *raw)
{
    if (raw->cq != NULL) {
        raw->device->disconnect(raw->id);
        raw->device->destroy_qp(raw->id);
        raw->device->destroy_cq(raw->cq);
        raw->device->destroy_comp_channel(raw->completions);
        raw->device->dereg_mr(raw->mr);
        raw->device->dealloc_pd(raw->pd);
    }
    if (raw->id != NULL)
        raw->device->destroy_id(raw->id);
    if (raw->listener != NULL)
        raw->device->destroy_id(raw->listener);
    raw->device->destroy_event_channel(raw->channel);
    free(raw->memory);
    *raw = (struct raw){.device = NULL};
}

static struct rdma_conn_param param(const struct raw *raw, const void *hello, size_t length)
{
    return (struct rdma_conn_param){.private_data = hello,
                                    .private_data_len = (uint8_t)length,
                                    .responder_resources = 1,
                                    .initiator_depth = 1,
                                    .retry_count = 6,
                                    .rnr_retry_count = raw->rnr_retries};
}

struct raw_event raw_expect(struct raw *raw, enum rdma_cm_event_type type)
{
    wait_until(raw, raw->event_count > 0, "event");
    struct raw_event event = raw->events[0];

    memmove(raw->events, raw->events + 1, (size_t)--raw->event_count * sizeof event);
    ck_assert_msg(event.type == type, "%s (status %d), not %s", rdma_event_str(event.type), event.status,
                  rdma_event_str(type));
    if (event.length >= HELLO_SIZE)
        xs_hello_unpack(&raw->there, event.private_data, event.length, SOCK_STREAM);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        raw->id = event.id;
        make_qp(raw);
    }
    return event;
}

/* Packs the hello. If it names no receive ring, this peer's is used. */
static void pack(const struct raw *raw, struct hello hello, uint8_t out[RAW_PRIVATE])
{
    if (hello.recv_ring_addr == 0) {
        hello.recv_ring_addr = (uintptr_t)raw->recv_ring;
        hello.recv_ring_rkey = raw->mr->rkey;
    }
    memset(out, 0, RAW_PRIVATE);
    xs_hello_pack(&hello, out);
}

struct hello raw_hello(int socktype)
{
    return (struct hello){.magic = HELLO_MAGIC,
                          .version = HELLO_VERSION,
                          .socktype = (uint8_t)socktype,
                          .credits = RAW_DEPTH / 2,
                          .adverts = 32,
                          .recv_ring_size = RAW_RECV_RING};
}

void raw_request(struct raw *raw, const struct address *to, struct hello hello, size_t length)
{
    uint8_t bytes[RAW_PRIVATE];
    struct rdma_conn_param with = param(raw, bytes, length);
    struct address there = *to;

    must(raw->device->create_id(raw->channel, &raw->id, NULL, RDMA_PS_TCP));
    must(raw->device->resolve_addr(raw->id, NULL, SA(&there), RESOLVE_MS));
    raw_expect(raw, RDMA_CM_EVENT_ADDR_RESOLVED);
    must(raw->device->resolve_route(raw->id, RESOLVE_MS));
    raw_expect(raw, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_qp(raw);
    pack(raw, hello, bytes);
    must(raw->device->connect(raw->id, &with));
}

void raw_connect(struct raw *raw, const struct address *to, struct hello hello)
{
    raw_request(raw, to, hello, HELLO_SIZE);
    raw_expect(raw, RDMA_CM_EVENT_ESTABLISHED);
}

void raw_listen(struct raw *raw, struct address *address)
{
    *address = loopback(AF_INET, 0);
    must(raw->device->create_id(raw->channel, &raw->listener, NULL, RDMA_PS_TCP));
    must(raw->device->bind_addr(raw->listener, SA(address)));
    must(raw->device->listen(raw->listener, 1));
    memcpy(&address->storage, &raw->listener->route.addr.src_addr, address->length);
}

void raw_accept(struct raw *raw, struct hello hello, size_t length)
{
    uint8_t bytes[RAW_PRIVATE];
    struct rdma_conn_param with = param(raw, bytes, length);

    pack(raw, hello, bytes);
    must(raw->device->accept(raw->id, &with));
}

void raw_reject(struct raw *raw, const void *bytes, size_t length)
{
    must(raw->device->reject(raw->id, bytes, (uint8_t)length));
}

void raw_disconnect(struct raw *raw)
{
    must(raw->device->disconnect(raw->id));
}

void raw_look(struct raw *raw)
{
    collect(raw);
}

void raw_ended(struct raw *raw)
{
    raw_expect(raw, RDMA_CM_EVENT_DISCONNECTED);
}

/* ---- Sending --------------------------------------------------------------------------- */

static void post(struct raw *raw, struct ibv_send_wr *wr, uint64_t addr, uint32_t bytes)
{
    struct ibv_sge sge = {addr, bytes, raw->mr->lkey};
    struct ibv_send_wr *bad;

    wr->sg_list = &sge;
    wr->num_sge = bytes > 0;
    ck_assert_int_lt(raw->sent - raw->done, RAW_DEPTH);
    ck_assert_int_eq(ibv_post_send(raw->id->qp, wr, &bad), 0);
    raw->sent++;
}

static void post_message(struct raw *raw, struct ibv_send_wr *wr, const void *bytes, size_t length)
{
    uint8_t *slot = slot_out(raw);

    ck_assert_uint_le(length, SLOT);
    memcpy(slot, bytes, length);
    post(raw, wr, (uintptr_t)slot, (uint32_t)length);
}

void raw_send(struct raw *raw, const void *bytes, size_t length)
{
    post_message(raw, &(struct ibv_send_wr){.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SOLICITED}, bytes,
                 length);
}

void raw_send_imm(struct raw *raw, const void *bytes, size_t length, uint32_t imm)
{
    post_message(raw, &(struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(imm)}, bytes,
                 length);
}

void raw_control(struct raw *raw, struct control control)
{
    uint8_t bytes[CONTROL_SIZE];

    xs_control_pack(&control, bytes);
    raw_send(raw, bytes, sizeof bytes);
}

static void write_and_tell(struct raw *raw, uint64_t addr, uint32_t rkey, uint32_t bytes, uint32_t imm)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .imm_data = htobe32(imm),
                             .wr.rdma = {.remote_addr = addr, .rkey = rkey}};

    post(raw, &wr, (uintptr_t)raw->room, bytes);
}

void raw_data(struct raw *raw, uint32_t imm)
{
    write_and_tell(raw, raw->there.recv_ring_addr, raw->there.recv_ring_rkey, 0, imm);
}

void raw_indirect(struct raw *raw, uint32_t bytes)
{
    uint64_t offset = raw->told % raw->there.recv_ring_size;

    ck_assert_uint_le(offset + bytes, raw->there.recv_ring_size);
    write_and_tell(raw, raw->there.recv_ring_addr + offset, raw->there.recv_ring_rkey, bytes,
                   raw->indirect_flags | bytes);
    raw->told += bytes;
}

void raw_direct(struct raw *raw, const struct control *advert, uint32_t bytes, uint32_t flags)
{
    write_and_tell(raw, advert->addr, advert->rkey, bytes, IMM_DIRECT | flags | bytes);
}

void raw_reach(struct raw *raw, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey, uint32_t bytes)
{
    struct ibv_send_wr wr = {.opcode = opcode, .wr.rdma = {.remote_addr = addr, .rkey = rkey}};

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = addr;
        wr.wr.atomic.compare_add = 1;
        wr.wr.atomic.rkey = rkey;
    }
    post(raw, &wr, (uintptr_t)raw->room, bytes);
}

struct control raw_advert(const struct raw *raw)
{
    return (struct control){
        .type = CONTROL_ADVERT, .addr = (uintptr_t)raw->room, .length = RAW_ROOM, .rkey = raw->mr->rkey};
}

enum ibv_wc_status raw_status(struct raw *raw)
{
    wait_until(raw, raw->done == raw->sent, "acknowledgement");
    return raw->status;
}

/* ---- Receiving ------------------------------------------------------------------------- */

struct raw_message raw_hear(struct raw *raw)
{
    wait_until(raw, raw->message_count > 0, "message");
    struct raw_message message = raw->messages[0];

    memmove(raw->messages, raw->messages + 1, (size_t)--raw->message_count * sizeof message);
    return message;
}

struct control raw_hear_control(struct raw *raw, enum control_type type)
{
    struct raw_message message = raw_hear(raw);

    ck_assert(!message.data);
    ck_assert_int_eq(message.control.type, type);
    return message.control;
}
