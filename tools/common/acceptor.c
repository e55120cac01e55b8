/* SPDX-License-Identifier: BSD-2-Clause */
/* See acceptor.h. */
#include "acceptor.h"

#include <errno.h>

int acceptor_post(struct acceptor *acceptor, int listener, exs_qhandle_t queue, int room)
{
    struct acceptor_place *const end = acceptor->places + ACCEPTOR_PLACES;

    for (struct acceptor_place *place = acceptor->places; place < end; place++)
        room -= place->posted;
    for (struct acceptor_place *place = acceptor->places; place < end && room > 0; place++) {
        if (place->posted)
            continue;
        place->element = (exs_acceptaddr_t){.exs_addr = (struct sockaddr *)&place->peer,
                                            .exs_addrlen = sizeof(place->peer),
                                            .exs_ahandle = place};
        if (exs_accept(listener, &place->element, 1, 0, queue) == -1)
            return -1;
        place->posted = true;
        room--;
    }
    return 0;
}

const struct sockaddr_storage *acceptor_take(const exs_event_t *event)
{
    struct acceptor_place *place = event->exs_evt_ahandle;

    place->posted = false;
    return &place->peer;
}

bool acceptor_may_go_on(const exs_event_t *event)
{
    return event->exs_evt_errno == 0 || event->exs_evt_errno == ECONNABORTED;
}
