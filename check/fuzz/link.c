/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.c - fuzzes what the UDP link receives from the kernel: datagrams with one packet or a burst, with right and
 * wrong ICRCs, cut anywhere, and with wrong ancillary data. Behind the link is the engine with one queue pair of each
 * transport and a second one for datagrams; those for datagrams join and leave multicast groups.
 *
 * The harness replaces recvmmsg (--wrap). For every input: a packet with a wrong ICRC changes nothing, and nothing
 * outside the memory region is written. At RoCE's own port, the ICRC may be computed with any IP identification, so a
 * wrong one is not always found; there only the second claim is checked.
 */
#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include "check/fuzz/input.h"
#include "check/support/endpoints.h"
#include "soft/engine/engine.h"
#include "soft/engine/group.h"
#include "soft/link/udp.h"

#define MEMORY 8192
#define SPOILED 0xbb /* all bytes of a payload whose ICRC is wrong, except perhaps one */
#define RIGHT 0x99
#define FD 1000000 /* not a descriptor of any file */

enum { TRANSPORTS = 3, QPS = TRANSPORTS + 1, ROUNDS = 40, RECEIVES = 4, GROUPS = 4 };

/* A context on a link without sockets, and its queue pairs: one of each transport, and a second one for datagrams. */
struct link_world {
    struct input input;
    struct soft_wire wire;
    struct service_member service;
    struct udp link;
    struct soft_clock clock;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qps[QPS];
    uint8_t *memory; /* with GUARD bytes on both sides */
    struct ibv_mr *mr;
    struct soft_path path;
    bool foreign; /* the packets come to RoCE's own port */
    bool grouped; /* there are multicast groups */
    int joined;   /* the number of multicast addresses that the link has joined */
};

static struct link_world *world; /* recvmmsg takes its datagrams from here */

int __wrap_recvmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags, struct timespec *timeout);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length);

/* ---- Multicast groups ---- */

/* The address of a multicast group, of the path's address family or the other one. */
static union soft_addr group(uint8_t which)
{
    bool v6 = (world->path.local.sa.sa_family == AF_INET6) != (which & 64);
    union soft_addr address = {0};

    if (v6) {
        address.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(4791)};
        address.in6.sin6_addr.s6_addr[0] = 0xff;
        address.in6.sin6_addr.s6_addr[1] = 0x15;
        address.in6.sin6_addr.s6_addr[15] = which % GROUPS;
    } else {
        address.in = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_port = htons(4791),
                                          .sin_addr.s_addr = htonl(0xefff0000u + which % GROUPS)};
    }
    return address;
}

static int join(struct soft_wire *wire, const union soft_addr *address)
{
    (void)wire;
    expect(soft_is_group(address), "no group's address");
    if (input_u8(&world->input) % 8 == 7)
        return EADDRNOTAVAIL;
    world->joined++;
    return 0;
}

static void leave(struct soft_wire *wire, const union soft_addr *address)
{
    (void)wire;
    expect(soft_is_group(address) && world->joined > 0, "what is left was not joined");
    world->joined--;
}

/* Attaches the queue pair to a multicast group, or detaches it. */
static int change_group(struct ibv_qp *qp, uint8_t which, bool in)
{
    union soft_addr address = group(which);
    union ibv_gid gid;

    soft_gid_of(&gid, &address.sa);
    return in ? soft_attach_mcast(qp, &gid, 0) : soft_detach_mcast(qp, &gid, 0);
}

static void change_groups(void)
{
    uint8_t how = input_u8(&world->input);

    if (how & 16)
        (void)change_group(world->qps[how & 8 ? TRANSPORTS : TRANSPORTS - 1], how, how & 32);
}

static void leave_groups(void)
{
    for (uint8_t which = 0; which < GROUPS; which++)
        for (int i = TRANSPORTS - 1; i < QPS; i++) {
            (void)change_group(world->qps[i], which, false);
            (void)change_group(world->qps[i], which | 64, false);
        }
    expect(world->joined == 0, "%d addresses are left", world->joined);
}

/* ---- Datagrams ---- */

static uint64_t clock_now(struct soft_clock *clock)
{
    (void)clock;
    return 1000000000;
}

static void swallow(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                    size_t stride)
{
    (void)link;
    (void)path;
    (void)stride;
    memset(burst, 0xee, length);
}

static int receive(struct soft_wire *wire, struct ibv_context *context)
{
    (void)wire;
    (void)context;
    return udp_receive(&world->link);
}

/* Writes a packet with its ICRC; returns the length of both. */
static size_t put_packet(uint8_t *at, const struct soft_path *path, unsigned id)
{
    static uint8_t payload[4096];
    struct input *input = &world->input;
    uint8_t how = input_u8(input);
    struct ibv_qp *qp = world->qps[how % TRANSPORTS];
    struct icrc_flow flow;
    bool bare = how & 64, spoiled = bare || how & 128;
    struct roce roce = {.opcode = (uint8_t)(soft_qp_of(qp)->transport | (how & 4 ? WRITE_ONLY : SEND_ONLY)),
                        .migreq = true,
                        .pkey = 0xffff,
                        .qpn = qp->qp_num,
                        .psn = roce_psn((uint32_t)soft_qp_of(qp)->resp.expected),
                        .qkey = setup_default().qkey,
                        .source = 0x4321,
                        .va = (uintptr_t)world->memory + input_u8(input),
                        .rkey = world->mr->rkey,
                        .payload = payload,
                        .payload_length = input_u8(input)};

    if (how & 8)
        roce.opcode = input_u8(input);
    if (world->grouped && how & 16)
        roce.qpn = SOFT_GROUP_QPN;
    if (world->grouped && how & 32)
        roce.pkey = input_u16(input);
    roce.dma_length = (uint32_t)roce.payload_length;
    memset(payload, spoiled ? SPOILED : RIGHT, roce.payload_length);
    size_t length = roce_write(at, &roce);
    icrc_flow_init(&flow, path, false);
    icrc_store(at + length, bare ? 0 : icrc_compute(&flow, id, at, length));
    if (spoiled && !bare) { /* spoil one byte that the ICRC covers: not the BTH's fifth */
        uint32_t byte = input_below(input, (uint32_t)length);
        at[byte == 4 ? 5 : byte] ^= (uint8_t)(1 + input_below(input, 255));
    }
    return length + ICRC_SIZE;
}

/* Writes at most `most` bytes: packets of one stride, or any bytes. Returns the length. */
static size_t put_burst(uint8_t *at, size_t most, const struct soft_path *path, int *stride)
{
    struct input *input = &world->input;
    uint8_t how = input_u8(input);
    size_t length = 0, size = 0;
    const uint8_t *bytes;

    if (how % 8 == 7) { /* any bytes */
        length = input_bytes(input, &bytes, input_u8(input));
        memcpy(at, bytes, length);
        *stride = input_u8(input);
        return length;
    }
    for (unsigned packets = 1 + (how >> 3 & 3), i = 0; i < packets && length + 4400 < most; i++) {
        unsigned id = !(how & 64) ? i : world->foreign ? input_u16(input) : input_u8(input);

        size = put_packet(at + length, path, id);
        length += size;
        *stride = (int)(i == 0 ? size : (size_t)*stride);
    }
    if (how & 128)
        *stride = (int)input_u16(input) - 16;
    if (how & 32) /* cut the last packet */
        length -= input_below(input, (uint32_t)(length < 256 ? length : 256));
    return length;
}

static void put_ancillary(struct msghdr *header, int level, int type, const void *data, size_t size,
                          size_t *used)
{
    struct cmsghdr *cmsg = (struct cmsghdr *)((uint8_t *)header->msg_control + *used);

    if (*used + CMSG_SPACE(size) > header->msg_controllen)
        return;
    *cmsg = (struct cmsghdr){.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(size)};
    memcpy(CMSG_DATA(cmsg), data, size);
    *used += CMSG_SPACE(size);
}

static void put_info(struct msghdr *header, const union soft_addr *to, uint8_t how, int stride)
{
    struct in_pktinfo v4 = {0};
    struct in6_pktinfo v6 = {0};
    int class = 0x2e;
    size_t used = 0;

    memset(header->msg_control, 0, header->msg_controllen);
    if (to->sa.sa_family == AF_INET)
        v4.ipi_addr = to->in.sin_addr;
    else
        v6.ipi6_addr = to->in6.sin6_addr;
    if (how & 16)
        v4.ipi_addr.s_addr ^= 1;
    if (to->sa.sa_family == AF_INET)
        put_ancillary(header, IPPROTO_IP, IP_PKTINFO, &v4, sizeof v4, &used);
    else
        put_ancillary(header, IPPROTO_IPV6, IPV6_PKTINFO, &v6, sizeof v6, &used);
    if (how & 32)
        put_ancillary(header, SOL_SOCKET, SCM_TIMESTAMP, &used, sizeof used, &used);
    if (how & 8 && to->sa.sa_family == AF_INET)
        put_ancillary(header, IPPROTO_IP, IP_TOS, &class, 1, &used);
    else if (how & 8)
        put_ancillary(header, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof class, &used);
    if (how & 64)
        put_ancillary(header, SOL_UDP, UDP_GRO, &stride, sizeof stride, &used);
    header->msg_controllen = used;
}

/* Writes a datagram. False: there is none, or errno has an error. */
static bool put_datagram(struct mmsghdr *one)
{
    struct msghdr *header = &one->msg_hdr;
    uint8_t how = input_u8(&world->input);
    struct soft_path path = world->path;
    int stride = 0;

    if (input_left(&world->input) == 0 || how % 8 == 0) {
        errno = how & 16 ? ECONNREFUSED : EAGAIN;
        return false;
    }
    if (world->grouped && how & 128)
        path.local = group(input_u8(&world->input));
    one->msg_len = (unsigned)put_burst(header->msg_iov->iov_base, header->msg_iov->iov_len, &path, &stride);
    memcpy(header->msg_name, &world->path.remote, sizeof world->path.remote);
    put_info(header, &path.local, how, stride);
    return true;
}

int __wrap_recvmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags, struct timespec *timeout)
{
    unsigned got = 0;

    (void)fd;
    (void)flags;
    (void)timeout;
    while (got < count && put_datagram(&headers[got]))
        got++;
    return got > 0 ? (int)got : -1;
}

/* The link asks for SO_MEMINFO, which has the number of datagrams that the kernel has dropped. */
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    (void)fd;
    (void)level;
    (void)option;
    memset(value, input_u8(&world->input), *length);
    return 0;
}

/* ---- The context ---- */

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
    struct ibv_qp_init_attr init = {
        .send_cq = world->cq,
        .recv_cq = world->cq,
        .qp_type = type,
        .cap = {.max_send_wr = 1, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = soft_create_qp(world->pd, &init);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_256,
                               .dest_qp_num = 0x4321,
                               .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid.raw = {[15] = 1}}}};
    int mask = IBV_QP_STATE;

    expect(qp && qp_init(qp, ACCESS_ALL) == 0, "a queue pair: %s", strerror(errno));
    soft_set_path(qp, &world->path);
    if (type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (type == IBV_QPT_RC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    int error = soft_modify_qp(qp, &attr, mask);
    expect(!error, "to RTR: %s", strerror(error));
    return qp;
}

static void post_receives(struct ibv_qp *qp)
{
    struct ibv_sge sge = {.addr = (uintptr_t)world->memory, .length = 512, .lkey = world->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    for (int i = 0; i < RECEIVES; i++)
        (void)ibv_post_recv(qp, &wr, &bad);
}

static void set_path(bool v6, bool same)
{
    for (int i = 0; i < 2; i++) {
        union soft_addr *address = i ? &world->path.remote : &world->path.local;
        if (v6) {
            address->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
            address->in6.sin6_addr.s6_addr[14] = (uint8_t)(i && !same);
        } else {
            address->in = (struct sockaddr_in){.sin_family = AF_INET,
                                               .sin_addr.s_addr = htonl(0x7f000001u + (unsigned)i)};
        }
        address->in.sin_port = htons((uint16_t)(4791 + i));
    }
}

static void world_open(uint8_t how)
{
    static const enum ibv_qp_type types[QPS] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_UD};

    set_path(how & 1, (how & (128 | 16)) == 128);
    world->clock.now = clock_now;
    world->wire = (struct soft_wire){.link = &world->link.link, .receive = receive};
    world->grouped = how & 4;
    if (how & 8) {
        world->wire.join = join;
        world->wire.leave = leave;
    }
    world->service.context = soft_open(&world->wire, &world->clock, 1);
    udp_init(&world->link, world->service.context, &world->service);
    world->link.link.send = swallow;
    world->link.sockets[0] = (struct udp_socket){.fd = FD, .local = world->path.local, .buffer = 1024};
    world->link.socket_count = 1;
    if (how & 16) {
        world->link.groups = calloc(1, sizeof *world->link.groups);
        expect(world->link.groups, "no memory");
        world->link.groups[0] = world->link.sockets[0];
        world->link.group_count = 1;
    }
    world->foreign = world->link.sockets[0].foreign = how & 2;
    world->link.ids = world->foreign ? calloc(1, sizeof *world->link.ids) : NULL;
    world->memory = mmap(NULL, MEMORY + 2 * GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    atomic_store(&world->service.state, SERVICE_WATCH); /* so that the link need not wake the service thread */
    expect(!world->foreign || world->link.ids != NULL, "no memory");
    expect(udp_prepare(&world->link) == 0 && world->link.context && world->memory != MAP_FAILED, "no memory");
    memset(world->memory, GUARD_BYTE, MEMORY + 2 * GUARD);
    world->memory += GUARD;
    memset(world->memory, 0, MEMORY);
    world->pd = soft_alloc_pd(world->link.context);
    world->cq = soft_create_cq(world->link.context, 256, NULL, NULL, 0);
    world->mr = soft_reg_mr(world->pd, world->memory, MEMORY, ACCESS_ALL);
    expect(world->cq && world->mr, "a region: %s", strerror(errno));
    for (int i = 0; i < QPS; i++)
        world->qps[i] = make_qp(types[i]);
}

static void world_close(void)
{
    for (size_t i = 0; i < MEMORY && !world->foreign; i++)
        expect(world->memory[i] != SPOILED, "byte %zu is of a packet that is wrong", i);
    expect_byte(world->memory - GUARD, GUARD, GUARD_BYTE);
    expect_byte(world->memory + MEMORY, GUARD, GUARD_BYTE);
    leave_groups();
    for (int i = 0; i < QPS; i++)
        expect(!soft_destroy_qp(world->qps[i]), "soft_destroy_qp");
    expect(!soft_dereg_mr(world->mr) && !soft_destroy_cq(world->cq) && !soft_dealloc_pd(world->pd) &&
               !soft_close(world->link.context),
           "something is still in use");
    munmap(world->memory - GUARD, MEMORY + 2 * GUARD);
    world->link.socket_count = world->link.group_count = 0; /* FD is not a descriptor that could be closed */
    udp_end(&world->link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct link_world one = {.input = {data, size}};
    struct ibv_wc wc;

    world = &one;
    world_open(input_u8(&one.input));
    for (int round = 0; round < ROUNDS && input_left(&one.input) > 0; round++) {
        for (int i = 0; i < QPS; i++)
            post_receives(one.qps[i]);
        if (one.grouped)
            change_groups();
        soft_lock(one.link.context);
        soft_progress(one.link.context);
        soft_unlock(one.link.context);
        while (ibv_poll_cq(one.cq, 1, &wc) > 0)
            expect(wc.wr_id == 0 && wc.qp_num != 0, "a completion of nothing");
    }
    world_close();
    return 0;
}
