/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.c - removes the software device, as an adapter that is unplugged: the connection manager reports the
 * removal, and the queue pair is in the error state or has no completions any more. See device.h.
 */
#include "device.h"

#include "core/api/core.h"
#include "core/sock/sock.h"
#include "soft/cm/cm_id.h"

/* The peer sees the same end of the connection as after a kill. */
static bool take_away(struct cm_id *id, bool flushes)
{
    struct cm_channel *channel = cm_lock(id);
    bool is_there = id->state >= CM_TCP_CONNECTING && id->state <= CM_ESTABLISHED;

    if (is_there) {
        cm_unpost(id);
        if (flushes)
            cm_qp_error(id);
        cm_id_close(id);
        id->state = CM_DISCONNECTED;
        cm_post(id, CM_KIND_DISCONNECT, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
    }
    cm_unlock(channel);
    return is_there;
}

bool device_remove(int socket, bool flushes)
{
    struct sock *sock = socket >= 0 ? xs_sock_get(socket) : NULL;
    bool done = false;

    if (!sock)
        return false;
    xs_sock_lock(sock);
    if ((sock->state == SOCK_CONNECTING || sock->state == SOCK_CONNECTED) && sock->device >= 0 &&
        sock->id[sock->device])
        done = take_away((struct cm_id *)sock->id[sock->device], flushes);
    xs_sock_unlock(sock);
    xs_sock_put(sock);
    return done;
}
