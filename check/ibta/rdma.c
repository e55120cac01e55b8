/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma.c - a bench for a device of rdma-core, like the kernel's rxe. The tester's sockets are in a separate network
 * namespace, at the other end of a veth pair. Its port 4791 is therefore free, and a raw socket receives the device's
 * packets with their headers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "wall.h"

#define ROCE_PORT 4791

static struct ibv_context *open_device(const char *name)
{
    struct ibv_context *context = NULL;
    struct ibv_device **list = ibv_get_device_list(NULL);

    for (int i = 0; list != NULL && list[i] != NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            context = ibv_open_device(list[i]);
    if (list != NULL)
        ibv_free_device_list(list);
    if (context == NULL)
        fprintf(stderr, "tester: no RDMA device %s here: rdma link add %s type rxe netdev ...\n", name, name);
    return context;
}

/* Returns the index of the GID of an IPv4 address, or -1 if the device has none. */
static int gid_of(struct ibv_context *context, const struct in_addr *address)
{
    union ibv_gid wanted = {.raw = {[10] = 0xff, [11] = 0xff}}, gid;
    struct ibv_port_attr port;

    memcpy(wanted.raw + 12, address, 4);
    if (ibv_query_port(context, 1, &port) != 0)
        return -1;
    for (int i = 0; i < port.gid_tbl_len; i++)
        if (ibv_query_gid(context, 1, i, &gid) == 0 && memcmp(&gid, &wanted, sizeof gid) == 0)
            return i;
    return -1;
}

static int enter(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), result = fd == -1 ? -1 : setns(fd, CLONE_NEWNET);

    if (fd != -1)
        close(fd);
    return result;
}

/* Creates the sockets in the namespace, then returns to the original one. A socket stays in the namespace in which it
 * was created. */
static void open_sockets(struct wall *wall, const char *netns, const struct sockaddr_in *address)
{
    char path[256];

    snprintf(path, sizeof path, "/run/netns/%s", netns);
    if (enter(path) == -1)
        bench_fail("entering the tester's network namespace (ip netns add)", errno);
    wall->out = wall_socket();
    wall->in = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
    if (wall->out == -1 || wall->in == -1 ||
        bind(wall->out, (const struct sockaddr *)address, sizeof *address) == -1 ||
        bind(wall->in, (const struct sockaddr *)address, sizeof *address) == -1)
        bench_fail("the tester's sockets", errno);
    if (enter("/proc/1/ns/net") == -1)
        bench_fail("coming back from the tester's network namespace", errno);
}

static void close_device(struct ibv_context *context)
{
    ibv_close_device(context);
}

static struct ibv_ah_attr way_to(const struct in_addr *address, int gid)
{
    struct ibv_ah_attr way = {
        .is_global = 1, .port_num = 1, .grh = {.sgid_index = (uint8_t)gid, .hop_limit = 64}};

    way.grh.dgid.raw[10] = way.grh.dgid.raw[11] = 0xff;
    memcpy(way.grh.dgid.raw + 12, address, 4);
    return way;
}

struct bench *bench_open_rdma(const char *device, const char *dut, const char *tester, const char *netns)
{
    struct wall *wall = calloc(1, sizeof *wall);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
    struct frame *to_dut;
    int gid;

    if (wall == NULL || (wall->bench.context = open_device(device)) == NULL)
        return NULL;
    to_dut = &wall->bench.to_dut;
    *to_dut = (struct frame){.from_port = htons(ROCE_PORT), .to_port = htons(ROCE_PORT)};
    if (inet_pton(AF_INET, dut, &to_dut->to) != 1 || inet_pton(AF_INET, tester, &to_dut->from) != 1 ||
        (gid = gid_of(wall->bench.context, &to_dut->to)) == -1) {
        fprintf(stderr, "tester: %s has no GID for %s, or that or %s is no IPv4 address\n", device, dut,
                tester);
        return NULL;
    }
    address.sin_addr = to_dut->from;
    open_sockets(wall, netns, &address);
    wall->headers = true;
    wall->way = way_to(&to_dut->from, gid);
    wall->bench.name = device;
    wall->bench.device = &rdma_device;
    wall->close_device = close_device;
    return wall_start(wall);
}
