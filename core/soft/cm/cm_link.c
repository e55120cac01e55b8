/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_link.c - which link a connection goes by. Shared memory is offered in the request and accepted in the
 * answer (shm_meet.h says how); whoever knows nothing of it, or can't, leaves the connection to UDP.
 */
#include "core/fds.h"
#include "core/soft/link/shm_meet.h"
#include "cm_id.h"

void cm_link_listen(struct cm_id *id)
{
    union soft_addr local;

    if (cm_socket_names(id->fd, &local, NULL) == 0)
        id->meeting = shm_meeting_open(&local);
}

void cm_link_requested(struct cm_id *id)
{
    if (id->peer.shm && id->listener->meeting != NULL)
        id->guest = shm_meeting_find(id->listener->meeting, id->peer.token);
}

/* A queue pair that the user connects by himself goes by UDP. */
void cm_link_describe(struct cm_id *id)
{
    struct cm_message *own = &id->own;
    union soft_addr local, remote;
    struct shm *shm;

    if (id->public.qp == NULL || cm_socket_names(id->fd, &local, &remote) != 0)
        return;
    shm = &home_of(id->public.verbs)->shm;
    if (own->type == CM_REQ && own->private_length <= CM_REQ_PRIVATE - CM_TOKEN)
        id->offered = shm_offer(shm, &remote, own->token);
    else if (own->type == CM_REP && id->guest != -1)
        id->offered = shm_accept(shm, id->guest);
    own->shm = id->offered != NULL;
    if (id->guest != -1) /* what was sent to him he finds all the same */
        fds_close(id->guest);
    id->guest = -1;
}

int cm_link_choose(struct cm_id *id, struct soft_path *path)
{
    struct shm_peer *peer = id->offered;
    int error;

    path->link = NULL;
    if (peer == NULL || !id->own.shm || !id->peer.shm)
        return 0;
    if (id->own.type == CM_REQ && (error = shm_accepted(peer)) != 0)
        return error; /* the other end has done its part: there is no way back */
    id->offered = NULL;
    shm_assign(&home_of(id->public.verbs)->shm, peer);
    path->link = &peer->link;
    return 0;
}

void cm_link_begin(struct soft_path *path)
{
    if (path->link != NULL)
        shm_join((struct shm_peer *)path->link);
}

void cm_link_drop(struct cm_id *id)
{
    if (id->meeting != NULL)
        shm_meeting_close(id->meeting);
    if (id->guest != -1)
        fds_close(id->guest);
    if (id->offered != NULL)
        shm_peer_free(id->offered);
    id->meeting = NULL;
    id->guest = -1;
    id->offered = NULL;
}
