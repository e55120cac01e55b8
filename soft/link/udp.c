/* SPDX-License-Identifier: BSD-2-Clause */
/* udp.c - creates and frees a UDP link; opens the sockets at the port of a context's LID, and at RoCE's port. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
#include "core/base/fds.h"
#include "core/base/log.h"
#include "core/base/pages.h"
#include "core/base/settings.h"
#include "roce_port.h"
#include "udp.h"

void udp_init(struct udp *udp, struct ibv_context *context, struct service_member *service)
{
    udp->link = (struct soft_link){.name = "udp", .trailer = ICRC_SIZE, .send = udp_send, .pace = udp_pace};
    udp->context = context;
    udp->service = service;
}

int udp_prepare(struct udp *udp)
{
    if (udp->buffer == NULL)
        udp->buffer = pages_new((size_t)UDP_AT_ONCE * UDP_BUFFER);
    if (udp->buffer != NULL && udp->arrivals == NULL)
        udp->arrivals = udp_arrivals_new(udp->buffer);
    return udp->arrivals == NULL ? ENOMEM : 0;
}

void udp_end(struct udp *udp)
{
    udp_sockets_close(udp);
    while (udp->group_count > 0)
        udp_socket_close(&udp->groups[--udp->group_count]);
    free(udp->groups);
    udp->groups = NULL;
    if (udp->roce != NULL)
        roce_port_leave(udp->roce);
    udp->roce = NULL;
    udp_pace_end(udp);
    free(udp->ids);
    udp->ids = NULL;
    pages_free(udp->buffer, (size_t)UDP_AT_ONCE * UDP_BUFFER);
    free(udp->arrivals);
    free(udp->ways_in);
    free(udp->ways_out);
    udp->buffer = NULL;
    udp->arrivals = NULL;
    udp->ways_in = NULL;
    udp->ways_out = NULL;
}

/* ---- The port of a LID ---- */

/* Opens sockets of both address families at a LID's port; on a host without IPv6 only one. 0, or an errno and none. */
static int open_pair(struct udp_socket pair[2], unsigned lid)
{
    union soft_addr any = {.in6 = {.sin6_family = AF_INET, .sin6_port = soft_port_of_lid(lid)}};
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

/* Whether a context with this share of RoCE's port (or none) may have the LID. */
static bool is_in_share(const struct roce_port *roce, unsigned lid)
{
    return roce == NULL || lid % ROCE_SHARES == roce->share;
}

/* Finds the first LID whose port is free, from a random one on. 0 or an errno. */
static int find_lid(const struct roce_port *roce, struct udp_socket pair[2], uint16_t *lid)
{
    uint16_t start = 0;
    int error = EADDRINUSE;

    if (getrandom(&start, sizeof start, GRND_NONBLOCK) != sizeof start)
        start = (uint16_t)getpid();
    for (unsigned tried = 0; tried < SOFT_LID_MAX && error == EADDRINUSE; tried++) {
        *lid = (uint16_t)(1 + (start + tried) % SOFT_LID_MAX);
        if (is_in_share(roce, *lid))
            error = open_pair(pair, *lid);
    }
    return error;
}

static int add_pair(struct udp *udp, struct udp_socket pair[2])
{
    int error = 0;

    for (int i = 0; i < 2 && pair[i].fd != -1; i++) {
        if (error == 0)
            error = udp_sockets_add(udp, &pair[i]);
        else
            udp_socket_close(&pair[i]);
    }
    return error;
}

/* ---- On RoCE's own port ---- */

/* Joins RoCE's port if EXS_ROCE asks for it. 0; or an errno, if EXS_ROCE requires it. */
static int join_roce(struct udp *udp)
{
    char why[128];
    int error = 0;

    if (!settings()->roce_wanted)
        return 0;
    udp->ids = calloc(1, sizeof *udp->ids);
    if (udp->ids == NULL)
        return ENOMEM;
    udp->roce = roce_port_join();
    if (udp->roce != NULL)
        return 0;
    error = errno;
    roce_port_explain(error, why, sizeof why);
    (settings()->roce_needed ? xs_warn : xs_log)("UDP port %d, which %s=%s asks for, is unavailable: %s",
                                                 SOFT_UDP_PORT, settings()->name[SET_ROCE], settings()->roce,
                                                 why);
    return settings()->roce_needed ? error : 0;
}

/* Duplicates the share's sockets, because the link closes its sockets and the share must keep its own. */
static int copy_share(const struct roce_port *roce, struct udp_socket pair[2])
{
    int error = 0;

    pair[0].fd = pair[1].fd = -1;
    for (int family = 0; family < ROCE_FAMILIES && error == 0; family++) {
        int fd = roce->fds[roce->share][family];

        if (fd == -1)
            break;
        fd = fds_own_private(fcntl(fd, F_DUPFD_CLOEXEC, 0));
        error = fd == -1 ? errno : udp_socket_take_shared(&pair[family], fd);
        if (error != 0 && fd != -1)
            fds_close(fd);
    }
    if (error != 0 && pair[0].fd != -1)
        udp_socket_close(&pair[0]);
    return error;
}

/* The LID's sockets must be added first: the link sends from the first ones. */
static int add_roce(struct udp *udp)
{
    struct udp_socket pair[2];
    int error = copy_share(udp->roce, pair);

    if (error == 0)
        error = add_pair(udp, pair);
    return error == 0 ? service_add_listener(udp->service, udp->roce->listener) : error;
}

int udp_take_lid(struct udp *udp, uint16_t *lid, bool *roce)
{
    struct udp_socket pair[2];
    int error = join_roce(udp);

    udp->known = true;
    *roce = udp->roce != NULL;
    if (error == 0)
        error = find_lid(udp->roce, pair, lid);
    if (error == 0)
        error = add_pair(udp, pair);
    return error == 0 && *roce ? add_roce(udp) : error;
}
