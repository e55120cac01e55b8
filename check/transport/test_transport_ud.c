/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_ud.c - unreliable datagrams: address handles, the GRH before the payload, Q_Keys, lengths. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/support/endpoints.h"

#define GRH 40
#define QKEY 0x11111111u /* setup_default's */

static struct setup ud_setup(void)
{
    struct setup setup = setup_default();
    setup.type = IBV_QPT_UD;
    setup.names = true;
    return setup;
}

static struct ibv_ah *handle_to(struct end *from, const struct end *to)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
    network_gid(from->network, to->node, &attr.grh.dgid);
    struct ibv_ah *ah = soft_create_ah(from->pd, &attr);
    ck_assert_ptr_nonnull(ah);
    return ah;
}

/* The parameters of a datagram. */
struct datagram {
    uint64_t id;
    struct ibv_ah *ah;
    uint32_t qpn, qkey;
    size_t at, length;
    bool with_imm;
    uint32_t imm;
    unsigned flags;
};

static int send_try(struct end *from, const struct datagram *datagram)
{
    struct ibv_sge sge = {.addr = (uintptr_t)from->memory + datagram->at,
                          .length = (uint32_t)datagram->length,
                          .lkey = from->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = datagram->id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = datagram->with_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
                             .send_flags = datagram->flags | IBV_SEND_SIGNALED,
                             .imm_data = datagram->imm,
                             .wr.ud = {.ah = datagram->ah,
                                       .remote_qpn = datagram->qpn,
                                       .remote_qkey = datagram->qkey}},
                       *bad;
    return ibv_post_send(from->qp, &wr, &bad);
}

static void send_datagram(struct end *from, const struct datagram *datagram)
{
    ck_assert_int_eq(send_try(from, datagram), 0);
    expect_done(from->send_cq, datagram->id, IBV_WC_SEND);
}

static const size_t lengths[] = {0, 1, 3, 64, 1000, 4096};
#define LENGTHS (int)(sizeof lengths / sizeof *lengths)

/* The GRH contains source, destination and length: as an IPv6 header, or as an IPv4 header in its second half. */
static void expect_header(const uint8_t *grh, const struct pair *pair, size_t udp)
{
    union ibv_gid from, to;
    network_gid(pair->network, 0, &from);
    network_gid(pair->network, 1, &to);
    if (pair->setup.family == AF_INET6) {
        ck_assert_uint_eq(grh[0] >> 4, 6);
        ck_assert_uint_eq((size_t)grh[4] << 8 | grh[5], udp);
        ck_assert_uint_eq(grh[6], 17);
        ck_assert_mem_eq(grh + 8, from.raw, 16);
        ck_assert_mem_eq(grh + 24, to.raw, 16);
        return;
    }
    expect_byte(grh, 20, 0);
    ck_assert_uint_eq(grh[20], 0x45);
    ck_assert_uint_eq((size_t)grh[22] << 8 | grh[23], 20 + udp);
    ck_assert_uint_eq(grh[29], 17);
    ck_assert_mem_eq(grh + 32, from.raw + 12, 4);
    ck_assert_mem_eq(grh + 36, to.raw + 12, 4);
    uint32_t sum = 0;
    for (int i = 20; i < GRH; i += 2)
        sum += (uint32_t)grh[i] << 8 | grh[i + 1];
    ck_assert_uint_eq((sum & 0xffff) + (sum >> 16), 0xffff);
}

START_TEST(delivers)
{
    struct setup setup = ud_setup();
    setup.family = _i % 2 ? AF_INET6 : AF_INET;
    setup.srq_depth = _i % 3 ? 0 : 16;
    bool with_imm = _i / 2 % 2;
    size_t length = lengths[_i / 4];
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_ah *ah = handle_to(a, b);
    fill(a->memory, length, 9);
    post_receive(b, 20, 0, GRH + 4096);
    send_datagram(a, &(struct datagram){.id = 1,
                                        .ah = ah,
                                        .qpn = b->qpn,
                                        .qkey = QKEY,
                                        .length = length,
                                        .with_imm = with_imm,
                                        .imm = 0x1234abcd});
    run(pair);
    struct ibv_wc wc = expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    ck_assert_int_eq(wc.opcode, IBV_WC_RECV);
    ck_assert_uint_eq(wc.byte_len, GRH + length);
    ck_assert_uint_eq(wc.src_qp, a->qpn);
    ck_assert_uint_eq(wc.wc_flags, IBV_WC_GRH | (with_imm ? IBV_WC_WITH_IMM : 0));
    if (with_imm)
        ck_assert_uint_eq(wc.imm_data, 0x1234abcd);
    size_t bth = ROCE_BTH + ROCE_DETH + (with_imm ? ROCE_IMM : 0);
    expect_header(b->memory, pair, 8 + bth + (length + 3) / 4 * 4 + setup.trailer);
    ck_assert(filled(b->memory + GRH, length, 9));
    expect_quiet(pair);
    ck_assert_uint_eq(network_packets(pair->network), 1);
    const struct roce *roce = &network_packet(pair->network, 0)->roce;
    ck_assert_uint_eq(roce->opcode, ROCE_UD + (with_imm ? SEND_ONLY_IMM : SEND_ONLY));
    ck_assert_uint_eq(roce->qkey, QKEY);
    ck_assert_uint_eq(roce->source, a->qpn);
    ck_assert_uint_eq(roce->qpn, b->qpn);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    pair_free(pair);
}
END_TEST

/* A reply can be sent with what the completion and the GRH contain. */
START_TEST(answers_by_completion)
{
    struct setup setup = ud_setup();
    setup.family = _i ? AF_INET6 : AF_INET;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_ah *ah = handle_to(a, b);
    post_receive(a, 10, 0, 1000);
    post_receive(b, 20, 0, 1000);
    send_datagram(a, &(struct datagram){.id = 1, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 50});
    run(pair);
    struct ibv_wc wc = expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    struct ibv_ah_attr attr;
    struct ibv_grh *grh = (struct ibv_grh *)b->memory;
    ck_assert_int_eq(soft_init_ah_from_wc(b->context, 1, &wc, grh, &attr), 0);
    union ibv_gid gid;
    network_gid(pair->network, 0, &gid);
    ck_assert_mem_eq(attr.grh.dgid.raw, gid.raw, sizeof gid.raw);
    ck_assert_uint_eq(attr.grh.sgid_index, 0);
    struct ibv_ah *back = soft_create_ah_from_wc(b->pd, &wc, grh, 1);
    ck_assert_ptr_nonnull(back);
    send_datagram(b, &(struct datagram){.id = 2, .ah = back, .qpn = wc.src_qp, .qkey = QKEY, .length = 60});
    run(pair);
    ck_assert_uint_eq(expect_wc(a->recv_cq, 10, IBV_WC_SUCCESS).byte_len, GRH + 60);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    ck_assert_int_eq(soft_destroy_ah(back), 0);
    pair_free(pair);
}
END_TEST

/* A datagram with a wrong Q_Key is dropped and counted, and the receive is used for the next one. If the remote Q_Key
 * has its upper bit set, the sender's own Q_Key is sent. */
START_TEST(qkeys)
{
    struct setup setup = ud_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_ah *ah = handle_to(a, b);
    post_receive(b, 20, 0, 1000);
    send_datagram(a, &(struct datagram){.id = 1, .ah = ah, .qpn = b->qpn, .qkey = QKEY ^ 1, .length = 50});
    run(pair);
    expect_quiet(pair);
    ck_assert_uint_eq(counters_of(b).refused, 1);
    send_datagram(a, &(struct datagram){.id = 2, .ah = ah, .qpn = b->qpn, .qkey = 0x80000000, .length = 51});
    run(pair);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, GRH + 51);
    struct ibv_qp_attr attr = {.qkey = 0x2222};
    ck_assert_int_eq(soft_modify_qp(b->qp, &attr, IBV_QP_QKEY), 0);
    post_receive(b, 21, 0, 1000);
    send_datagram(a, &(struct datagram){.id = 3, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 52});
    send_datagram(a, &(struct datagram){.id = 4, .ah = ah, .qpn = b->qpn, .qkey = 0x2222, .length = 53});
    run(pair);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 21, IBV_WC_SUCCESS).byte_len, GRH + 53);
    expect_quiet(pair);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    pair_free(pair);
}
END_TEST

/* Longer than the MTU: no packet is sent, and the request fails. The queue pair sends again when it is moved to RTS. */
START_TEST(too_long_is_not_sent)
{
    struct setup setup = ud_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_ah *ah = handle_to(a, b);
    post_receive(b, 20, 0, 10000);
    ck_assert_int_eq(
        send_try(a, &(struct datagram){.id = 1, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 4097}), 0);
    expect_wc(a->send_cq, 1, IBV_WC_LOC_LEN_ERR);
    ck_assert_uint_eq(network_packets(pair->network), 0);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_SQE);
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
    ck_assert_int_eq(soft_modify_qp(a->qp, &rts, IBV_QP_STATE), 0);
    send_datagram(a, &(struct datagram){.id = 2, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 4096});
    run(pair);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, GRH + 4096);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    pair_free(pair);
}
END_TEST

/* The GRH needs space, too. A datagram that is too long is dropped, and the receive is used for the next one; but a
 * receive of a shared queue can't be put back, and fails. */
START_TEST(short_receive)
{
    struct setup setup = ud_setup();
    setup.srq_depth = _i ? 16 : 0;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_ah *ah = handle_to(a, b);
    memset(b->memory, 0x33, b->size);
    post_receive(b, 20, 0, GRH + 99);
    send_datagram(a, &(struct datagram){.id = 1, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 100});
    run(pair);
    expect_byte(b->memory, b->size, 0x33);
    send_datagram(a, &(struct datagram){.id = 2, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 99});
    run(pair);
    expect_wc(b->recv_cq, 20, _i ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(b->qp), _i ? IBV_QPS_ERR : IBV_QPS_RTS);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    pair_free(pair);
}
END_TEST

/* Without a posted receive a datagram is lost. */
START_TEST(no_receive_loses_it)
{
    struct setup setup = ud_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_ah *ah = handle_to(a, b);
    send_datagram(a, &(struct datagram){.id = 1, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 100});
    run(pair);
    post_receive(b, 20, 0, 1000);
    run(pair);
    expect_quiet(pair);
    send_datagram(a, &(struct datagram){.id = 2, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 101});
    run(pair);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, GRH + 101);
    ck_assert_uint_eq(network_packets(pair->network), 2);
    ck_assert_uint_eq(counters_of(b).unready, 1);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    pair_free(pair);
}
END_TEST

static int post_opcode(struct end *from, struct ibv_ah *ah, enum ibv_wr_opcode opcode)
{
    struct ibv_send_wr wr = {.opcode = opcode, .wr.ud = {.ah = ah, .remote_qpn = 2, .remote_qkey = QKEY}}, *bad;
    return ibv_post_send(from->qp, &wr, &bad);
}

START_TEST(what_is_refused)
{
    struct setup setup = ud_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_ah *ah = handle_to(a, b), *foreign = handle_to(b, a);
    struct ibv_ah_attr nowhere = {.is_global = 1, .port_num = 1};
    static const enum ibv_wr_opcode connected[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                                   IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
    for (size_t i = 0; i < sizeof connected / sizeof *connected; i++)
        ck_assert_int_eq(post_opcode(a, ah, connected[i]), EINVAL);
    ck_assert_int_eq(post_opcode(a, NULL, IBV_WR_SEND), EINVAL);
    ck_assert_int_eq(post_opcode(a, foreign, IBV_WR_SEND), EINVAL);
    errno = 0;
    ck_assert_ptr_null(soft_create_ah(a->pd, &nowhere));
    ck_assert_int_eq(errno, EINVAL);
    network_gid(pair->network, 1, &nowhere.grh.dgid);
    nowhere.port_num = 2;
    ck_assert_ptr_null(soft_create_ah(a->pd, &nowhere));
    struct ibv_qp_attr attr = {.path_mtu = IBV_MTU_1024, .qp_access_flags = ACCESS_ALL};
    ck_assert_int_eq(soft_modify_qp(a->qp, &attr, IBV_QP_ACCESS_FLAGS), EINVAL);
    ck_assert_int_eq(soft_modify_qp(a->qp, &attr, IBV_QP_PATH_MTU), EINVAL);
    ck_assert_int_eq(soft_dealloc_pd(b->pd), EBUSY);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    ck_assert_int_eq(soft_destroy_ah(foreign), 0);
    pair_free(pair);
}
END_TEST

/* A file is truncated before its datagram is sent: only that one fails, not an earlier one. */
START_TEST(pages_that_are_gone)
{
    struct setup setup = ud_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], file = *a;
    struct ibv_ah *ah = handle_to(a, b);
    int fd = memfd_create("gone", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 4096), 0);
    file.memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(file.memory, MAP_FAILED);
    file.mr = soft_reg_mr(a->pd, file.memory, 4096, 0);
    ck_assert_ptr_nonnull(file.mr);
    post_receive(b, 20, 0, 1000);
    post_receive(b, 21, 0, 1000);
    struct datagram datagram = {.id = 1, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 100};
    fill(file.memory, 100, 3);
    send_datagram(&file, &datagram);
    run(pair);
    expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    ck_assert(filled(b->memory + GRH, 100, 3));
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    datagram.id = 2;
    ck_assert_int_eq(send_try(&file, &datagram), 0);
    expect_wc(a->send_cq, 2, IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_SQE);
    run(pair);
    expect_quiet(pair);
    ck_assert_int_eq(soft_dereg_mr(file.mr), 0);
    munmap(file.memory, 4096);
    close(fd);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    pair_free(pair);
}
END_TEST

/* The receive's memory is such a file: the receive fails, as without a region. */
START_TEST(received_into_pages_that_are_gone)
{
    struct setup setup = ud_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], file = *b;
    struct ibv_ah *ah = handle_to(a, b);
    int fd = memfd_create("gone", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 8192), 0);
    file.memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(file.memory, MAP_FAILED);
    file.mr = soft_reg_mr(b->pd, file.memory, 8192, IBV_ACCESS_LOCAL_WRITE);
    ck_assert_ptr_nonnull(file.mr);
    post_receive(&file, 20, 0, 1000);
    post_receive(&file, 21, 4096 - GRH * _i, 1000); /* with or without space for the GRH */
    struct datagram datagram = {.id = 1, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 100};
    fill(a->memory, 100, 3);
    ck_assert_int_eq(ftruncate(fd, 4096), 0);
    send_datagram(a, &datagram);
    send_datagram(a, &datagram);
    run(pair);
    expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    ck_assert(filled(file.memory + GRH, 100, 3));
    expect_wc(b->recv_cq, 21, IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    expect_quiet(pair);
    ck_assert_int_eq(soft_dereg_mr(file.mr), 0);
    munmap(file.memory, 8192);
    close(fd);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    pair_free(pair);
}
END_TEST

/* The payload of an inline datagram and its address handle may be reused at once. */
START_TEST(inline_and_gone)
{
    struct setup setup = ud_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_ah *ah = handle_to(a, b);
    fill(a->memory, 60, 5);
    post_receive(b, 20, 0, 200);
    struct datagram datagram = {
        .id = 1, .ah = ah, .qpn = b->qpn, .qkey = QKEY, .length = 60, .flags = IBV_SEND_INLINE};
    send_datagram(a, &datagram);
    memset(a->memory, 0, 60);
    ck_assert_int_eq(soft_destroy_ah(ah), 0);
    run(pair);
    expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    ck_assert(filled(b->memory + GRH, 60, 5));
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: unreliable datagrams");
    TCase *tcase = new_case(suite, "ud");
    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, delivers, 0, 4 * LENGTHS);
    tcase_add_loop_test(tcase, answers_by_completion, 0, 2);
    tcase_add_test(tcase, qkeys);
    tcase_add_test(tcase, too_long_is_not_sent);
    tcase_add_loop_test(tcase, short_receive, 0, 2);
    tcase_add_test(tcase, no_receive_loses_it);
    tcase_add_test(tcase, what_is_refused);
    tcase_add_test(tcase, pages_that_are_gone);
    tcase_add_loop_test(tcase, received_into_pages_that_are_gone, 0, 2);
    tcase_add_test(tcase, inline_and_gone);
    return run_suite(suite);
}
