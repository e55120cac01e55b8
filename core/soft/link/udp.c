/* SPDX-License-Identifier: BSD-2-Clause */
/* What a UDP link is made of, and the port of its own that a context with names has. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
#include "udp.h"

void udp_init(struct udp *udp, struct ibv_context *context, struct service_member *service)
{
    udp->link = (struct soft_link){.name = "udp", .trailer = ICRC_SIZE, .send = udp_send};
    udp->context = context;
    udp->service = service;
}

int udp_prepare(struct udp *udp)
{
    if (udp->buffer == NULL)
        udp->buffer = malloc((size_t)UDP_AT_ONCE * UDP_BUFFER);
    if (udp->buffer != NULL && udp->arrivals == NULL)
        udp->arrivals = udp_arrivals_new(udp->buffer);
    return udp->arrivals == NULL ? ENOMEM : 0;
}

void udp_end(struct udp *udp)
{
    udp_sockets_close(udp);
    free(udp->buffer);
    free(udp->arrivals);
    free(udp->ways_in);
    free(udp->ways_out);
    udp->buffer = NULL;
    udp->arrivals = NULL;
    udp->ways_in = NULL;
    udp->ways_out = NULL;
}

/* ---- With names ---- */

/* Both families on a LID's port: 0, or an errno, and neither. A host without IPv6 has only the one. */
static int open_pair(struct udp_socket pair[2], unsigned lid)
{
    union soft_addr any = {.in = {.sin_family = AF_INET, .sin_port = soft_port_of_lid(lid)}};
    int error = udp_socket_open(&pair[0], &any);

    if (error != 0)
        return error;
    any.sa.sa_family = AF_INET6; /* the port is at the same place */
    pair[1].fd = -1;
    error = udp_socket_open(&pair[1], &any);
    if (error == 0 || error == EAFNOSUPPORT || error == EADDRNOTAVAIL)
        return 0;
    udp_socket_close(&pair[0]);
    return error;
}

/* The first LID that nobody has, from one at random on. 0 or an errno. */
static int find_lid(struct udp_socket pair[2], uint16_t *lid)
{
    uint16_t start = 0;
    int error = EADDRINUSE;

    if (getrandom(&start, sizeof start, GRND_NONBLOCK) != sizeof start)
        start = (uint16_t)getpid();
    for (unsigned tried = 0; tried < SOFT_LID_MAX && error == EADDRINUSE; tried++) {
        *lid = (uint16_t)(1 + (start + tried) % SOFT_LID_MAX);
        error = open_pair(pair, *lid);
    }
    return error;
}

int udp_take_lid(struct udp *udp, uint16_t *lid)
{
    struct udp_socket pair[2];
    int error = find_lid(pair, lid);

    if (error != 0)
        return error;
    for (int i = 0; i < 2 && pair[i].fd != -1; i++) {
        if (error == 0)
            error = udp_sockets_add(udp, &pair[i]);
        else
            udp_socket_close(&pair[i]);
    }
    return error;
}
