/* SPDX-License-Identifier: BSD-2-Clause */
/* udp.c - a bench for the software device over its UDP link, opened as any program opens it. The tester uses a UDP port
 * like that of another process. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "soft/verbs/verbs.h"
#include "soft/engine/wire.h"
#include "wall.h"

/* Binds to the last free port. Returns its identifier, or 0. */
static uint16_t take_port(int fd, struct sockaddr_in *address)
{
    for (unsigned lid = SOFT_LID_MAX; lid > 0; lid--) {
        address->sin_port = soft_port_of_lid(lid);
        if (bind(fd, (struct sockaddr *)address, sizeof *address) == 0)
            return (uint16_t)lid;
    }
    return 0;
}

static void close_device(struct ibv_context *context)
{
    soft_close_device(context);
}

struct bench *bench_open_udp(void)
{
    struct wall *wall = calloc(1, sizeof *wall);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ibv_port_attr port;

    if (wall == NULL)
        return NULL;
    wall->in = wall->out = wall_socket();
    wall->way = (struct ibv_ah_attr){.dlid = take_port(wall->out, &address), .port_num = 1};
    wall->bench.name = "embedded device, UDP link";
    wall->bench.device = &soft_device;
    wall->bench.context = soft_open_device();
    if (wall->way.dlid == 0 || wall->bench.context == NULL ||
        wall->bench.device->query_port(wall->bench.context, 1, &port) != 0) {
        perror("tester: the embedded device does not open");
        return NULL;
    }
    wall->bench.to_dut = (struct frame){.from = address.sin_addr,
                                        .to = address.sin_addr,
                                        .from_port = address.sin_port,
                                        .to_port = soft_port_of_lid(port.lid)};
    wall->close_device = close_device;
    return wall_start(wall);
}
