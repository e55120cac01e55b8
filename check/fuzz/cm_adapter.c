/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_adapter.c - untrusted peers that use InfiniBand's connection management at queue pair 1 of RoCE's port
 * (cm_port.h): valid and damaged packets, with the communication IDs of existing connections and others; hosts that
 * answer "port unreachable"; and other processes of this host, which pass on what they received.
 */
#include <netinet/in.h>
#include <sys/un.h>
#include <linux/errqueue.h>
#include <unistd.h>
#include "check/fuzz/cm_port.h"
#include "core/base/clock.h"
#include "soft/cm/cm_message.h"
#include "soft/cm/ib_address.h"
#include "soft/cm/ib_end.h"
#include "soft/cm/ib_pass.h"
#include "soft/link/roce_port.h"

#define GUID UINT64_C(0x1122334455667788)

enum { ADAPTERS = 4 };

int __real_socket(int family, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __real_getsockname(int fd, struct sockaddr *address, socklen_t *length);
ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);

/* ---- Incoming packets ---- */

static struct coming *prepare(int fd)
{
    port.coming = (struct coming){.fd = fd};
    return &port.coming;
}

static void add_control(struct coming *coming, int level, int type, const void *data, size_t length)
{
    struct msghdr message = {.msg_control = coming->control, .msg_controllen = sizeof coming->control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    *header = (struct cmsghdr){.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(length)};
    memcpy(CMSG_DATA(header), data, length);
    coming->control_length = CMSG_SPACE(length);
}

/* Path from an adapter on one of several hosts, one of which also has the TCP port that the application connects to. */
static struct soft_path path_from(struct cm_world *world, unsigned which)
{
    struct soft_path path = {.local.in = world->address, .remote.in = world->stranger_address};

    if (which % ADAPTERS == 1)
        path.remote.in = world->address;
    else if (which % ADAPTERS == 2)
        path.remote.in.sin_addr.s_addr = htonl(0x7f000063);
    if (which % ADAPTERS == 3) {
        path.local = path.remote = (union soft_addr){.in6 = {.sin6_family = AF_INET6}};
        path.local.in6.sin6_addr = path.remote.in6.sin6_addr = in6addr_loopback;
    }
    /* Same offset as in sockaddr_in6. */
    path.local.in.sin_port = path.remote.in.sin_port = htons(SOFT_UDP_PORT);
    return path;
}

static void tell_local(struct coming *coming, const struct soft_path *path)
{
    struct in6_pktinfo six = {.ipi6_addr = path->local.in6.sin6_addr, .ipi6_ifindex = 1};
    struct in_pktinfo four = {.ipi_addr = path->local.in.sin_addr};

    if (path->local.sa.sa_family == AF_INET)
        add_control(coming, IPPROTO_IP, IP_PKTINFO, &four, sizeof four);
    else
        add_control(coming, IPPROTO_IPV6, IPV6_PKTINFO, &six, sizeof six);
}

/* Delivers the message as a packet, which may be damaged, with a right or wrong ICRC. */
static void arrive(struct cm_world *world, const struct soft_path *path, const uint8_t mad[QP1_MAD])
{
    struct input *input = &world->input;
    uint8_t how = input_u8(input);
    int family = path->remote.sa.sa_family == AF_INET ? ROCE_IPV4 : ROCE_IPV6;
    struct coming *coming = prepare(ib_port.qp1.fds[family]);
    struct icrc_flow flow;

    coming->from = path->remote;
    tell_local(coming, path);
    qp1_write(coming->bytes, 7, mad);
    coming->length = PACKET;
    for (unsigned lies = how & 3; lies > 0; lies--)
        coming->bytes[how & 4 ? input_below(input, 64) : input_below(input, QP1_PACKET)] ^= input_u8(input);
    icrc_flow_init(&flow, path, false);
    icrc_store(coming->bytes + QP1_PACKET,
               icrc_compute(&flow, how & 8 ? input_u16(input) : 0, coming->bytes, QP1_PACKET));
    if (how >= 0xf0)
        coming->length = input_u16(input) % sizeof coming->bytes;
    else if (how >= 0xe0)
        coming->bytes[QP1_PACKET] ^= 1;
    task();
}

/* A REQ or SIDR_REQ for the listener, or for no listener. */
static void ask(struct cm_world *world)
{
    uint8_t how = input_u8(&world->input), which = input_u8(&world->input), mad[QP1_MAD];
    struct soft_path path = path_from(world, which);
    bool datagrams = world->listener ? world->listener->ps == RDMA_PS_UDP : how & 1;
    uint64_t service = ib_service(datagrams ? IB_SPACE_UDP : IB_SPACE_TCP,
                                  (uint16_t)(ntohs(world->address.sin_port) ^ (how >> 7)));
    union soft_addr from = path.remote;
    union ibv_gid gid;
    struct ib_message message = {.type = IB_REQ,
                                 .transaction = which >> 4,
                                 .local_id = 0x100 + (how & 7),
                                 .req = {.service = service,
                                         .ca_guid = GUID,
                                         .qpn = 0x4321 + (how & 7),
                                         .psn = 0x777,
                                         .responder_resources = 1,
                                         .initiator_depth = 1,
                                         .remote_response = which >> 4,
                                         .local_response = 20,
                                         .cm_retries = 3,
                                         .pkey = 0xffff,
                                         .mtu = 1 + which % 5,
                                         .ack_timeout = 19}};

    soft_gid_of(&gid, &from.sa);
    memcpy(message.req.local_gid, gid.raw, sizeof gid.raw);
    if (datagrams != (bool)(how & 64)) {
        message.type = IB_SIDR_REQ;
        message.sidr_req.service = service;
        message.sidr_req.pkey = 0xffff;
    }
    ib_address_encode(&from, &path.local, message.private_data);
    ib_encode(&message, mad);
    arrive(world, &path, mad);
}

/* The message type that answers `type`, or any other. */
static enum ib_type answer_to(enum ib_type type, uint8_t how)
{
    if (how & 4)
        return (enum ib_type)(IB_REQ + (how >> 4) % 9);
    switch (type) {
    case IB_REQ:
        return how & 8 ? IB_REJ : IB_REP;
    case IB_REP:
        return how & 8 ? IB_DREQ : IB_RTU;
    case IB_DREQ:
        return IB_DREP;
    case IB_SIDR_REQ:
        return IB_SIDR_REP;
    default:
        return IB_DREQ;
    }
}

/* Sets the fields of this message type. */
static void say_rest(struct ib_message *message, const struct ib_message *heard, uint8_t what)
{
    switch (message->type) {
    case IB_REP:
        message->rep.ca_guid = GUID;
        message->rep.qpn = 0x5432;
        message->rep.ack_delay = what & 31;
        break;
    case IB_MRA:
        message->mra.answered = what % 3;
        message->mra.service_time = what >> 3;
        break;
    case IB_REJ:
        message->rej.answered = what % 3;
        message->rej.reason = what & 128 ? IB_INVALID_SERVICE : what;
        break;
    case IB_DREQ:
        message->dreq.qpn = heard->type == IB_REP ? heard->rep.qpn : heard->req.qpn;
        break;
    case IB_SIDR_REP:
        message->local_id = heard->local_id;
        message->sidr_rep.service = heard->sidr_req.service;
        message->sidr_rep.qpn = 0x5432;
        message->sidr_rep.status = what & 3;
        break;
    default:
        break;
    }
}

static const struct heard *choose(struct cm_world *world)
{
    unsigned kept = port.count < HEARD ? port.count : HEARD;

    return kept == 0 ? NULL : &port.heard[(port.count - 1 - input_below(&world->input, kept)) % HEARD];
}

static void answer(struct cm_world *world)
{
    const struct heard *heard = choose(world);
    uint8_t how = input_u8(&world->input), mad[QP1_MAD];
    struct ib_message message;

    if (!heard)
        return;
    message = (struct ib_message){.type = answer_to(heard->message.type, how),
                                  .transaction = heard->message.transaction,
                                  .local_id = heard->message.remote_id,
                                  .remote_id = heard->message.local_id};
    if (message.local_id == 0)
        message.local_id = 0x200 + (how & 3);
    say_rest(&message, &heard->message, input_u8(&world->input));
    memset(message.private_data, 0x77, 64);
    ib_encode(&message, mad);
    port.anywhere = !is_near(&heard->path.remote); /* the address in a forged message may be answered there */
    arrive(world, &heard->path, mad);
    port.anywhere = false;
}

/* The peer's host reports that the port is unreachable, in a valid message or an invalid one. */
static void refuse(struct cm_world *world)
{
    const struct heard *heard = choose(world);
    uint8_t how = input_u8(&world->input), mad[QP1_MAD];
    struct sock_extended_err error = {.ee_errno = how & 1 ? EHOSTUNREACH : ECONNREFUSED};
    struct coming *coming;
    bool ipv4;

    if (!heard)
        return;
    ipv4 = heard->path.remote.sa.sa_family == AF_INET;
    coming = prepare(ib_port.qp1.out[ipv4 ? ROCE_IPV4 : ROCE_IPV6]);
    coming->from = heard->path.remote;
    ib_encode(&heard->message, mad);
    qp1_write(coming->bytes, 7, mad);
    coming->length = how & 2 ? input_u16(&world->input) % PACKET : PACKET;
    if (how & 4)
        coming->bytes[input_below(&world->input, 64)] ^= input_u8(&world->input);
    add_control(coming,
                how & 8 ? SOL_SOCKET
                : ipv4  ? IPPROTO_IP
                        : IPPROTO_IPV6,
                ipv4 ? IP_RECVERR : IPV6_RECVERR, &error, sizeof error);
    ib_hear(coming->fd);
}

/* Connects to one of the library's inboxes, and sends these bytes. */
static void stand_at(int inbox, const uint8_t *bytes, size_t length, bool says, bool leaves)
{
    struct sockaddr_un un;
    socklen_t size = sizeof un;
    int fd = __real_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    expect(__real_getsockname(inbox, (struct sockaddr *)&un, &size) == 0 &&
               __real_connect(fd, (struct sockaddr *)&un, size) == 0 &&
               (!says || __real_send(fd, bytes, length, 0) != -1),
           "at a inbox: %s", strerror(errno));
    if (leaves)
        close(fd);
    ib_hear(inbox);
    if (!leaves)
        close(fd);
}

/* Another process passes on a message that it has received, or claims to have. */
static void pass_on(struct cm_world *world)
{
    struct input *input = &world->input;
    uint8_t how = input_u8(input), bytes[512];
    const struct heard *heard = choose(world);
    struct soft_path path = heard ? heard->path : path_from(world, how);
    struct ib_message message = {.type = how & 128 ? IB_REJ : IB_DREQ, .local_id = 0x100};
    const struct ib_end *listener = LIST_FIRST(&ib_port.listeners);
    uint32_t version = how & 2 ? 2 : 1;
    size_t length = sizeof version + 2 * sizeof path.local + IB_MAD_BYTES;

    if (heard)
        message.remote_id = heard->message.local_id;
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &version, sizeof version);
    memcpy(bytes + sizeof version, &path.local, sizeof path.local);
    memcpy(bytes + sizeof version + sizeof path.local, &path.remote, sizeof path.remote);
    ib_encode(&message, bytes + length - IB_MAD_BYTES);
    if (how & 4)
        bytes[input_below(input, (uint32_t)length)] = input_u8(input);
    if (how & 8)
        length = length - 64 + input_below(input, 128);
    port.anywhere = how & 4;
    port.foreign = how & 1;
    stand_at(how & 64 && listener && listener->has_inbox ? listener->inbox : ib_port.inbox, bytes, length,
             !(how & 16), how & 32);
    port.anywhere = port.foreign = false;
}

/* TCP is not answered any more, so that queue pair 1 is tried in parallel. */
static void fall_silent(struct cm_world *world)
{
    if (world->silent == -1) {
        expect(listen(world->listening, 0) == 0, "listen: %s", strerror(errno));
        world->silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(world->silent, (struct sockaddr *)&world->stranger_address,
                       sizeof world->stranger_address);
    }
}

/* ---- The steps ---- */

void adapter_acts(struct cm_world *world)
{
    static const int errors[] = {0, ECONNREFUSED, ENETUNREACH, EAGAIN};
    uint8_t what = input_u8(&world->input);

    neighbour_hears();
    switch (what & 7) {
    case 0:
    case 1:
        ask(world);
        break;
    case 2:
    case 3:
    case 4:
        answer(world);
        break;
    case 5:
        refuse(world);
        break;
    case 6:
        pass_on(world);
        break;
    default:
        port.passes = what & 8;
        port.no_route = what & 16 ? errors[what >> 5 & 3] : 0;
        if (what & 128)
            fall_silent(world);
    }
    port.coming.fd = -1;
}

void adapter_hears(void)
{
    task();
}

static uint32_t numbers_given;

static uint32_t number(struct ib_world *world)
{
    (void)world;
    return 0xffffff00 + SHARE + QP1_SHARES * numbers_given++;
}

/* Identifiers are the same for each input. */
void adapter_begins(struct cm_world *world)
{
    ib_port.world.number = number;
    numbers_given = 0;
    ib_port.world.next_transaction = 1;
    port.count = 0;
    port.passes = false;
    port.no_route = 0;
    world->silent = -1;
}

/* Endpoints without an identifier end when their time is over. */
void adapter_ends(struct cm_world *world)
{
    if (world->silent != -1)
        close(world->silent);
    expect(LIST_EMPTY(&ib_port.listeners), "a listener is left");
    while (!LIST_EMPTY(&ib_port.world.conns)) {
        uint64_t due = ib_deadline(&ib_port.world), now = now_ns();

        expect(due != NEVER_NS, "a connection that nobody has never ends");
        system_pass(due > now ? due - now : 0);
        task();
    }
    expect(ib_port.ends == 0, "%u ends are left", ib_port.ends);
}

void adapter_open(struct soft_home *home)
{
    int error;

    port_open();
    error = ib_port_open(home);
    expect(error == 0 && task, "the port: %s", strerror(error));
}
