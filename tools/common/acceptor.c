/* SPDX-License-Identifier: BSD-2-Clause */
/* acceptor.c - the accepts of a server's listener; see acceptor.h. */
#include "acceptor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define AGAIN_S 1.
#define ACCEPTOR_LINE 160

static int post_accepts(struct acceptor *acceptor)
{
    struct acceptor_place *const end = acceptor->places + ACCEPTOR_PLACES;
    int room = acceptor->room();

    for (struct acceptor_place *place = acceptor->places; place < end; place++)
        room -= place->posted;
    for (struct acceptor_place *place = acceptor->places; place < end && room > 0; place++) {
        if (place->posted)
            continue;
        place->element = (exs_acceptaddr_t){.exs_addr = (struct sockaddr *)&place->peer,
                                            .exs_addrlen = sizeof(place->peer),
                                            .exs_ahandle = place};
        if (exs_accept(acceptor->listener, &place->element, 1, 0, acceptor->queue) == -1)
            return -1;
        place->posted = true;
        room--;
    }
    return 0;
}

static void again_cb(EV_P_ ev_timer *w, int revents)
{
    (void)loop, (void)revents;
    acceptor_more(w->data);
}

int acceptor_begin(struct acceptor *acceptor)
{
    ev_timer_init(&acceptor->again, again_cb, AGAIN_S, 0.);
    acceptor->again.data = acceptor;
    return post_accepts(acceptor);
}

void acceptor_more(struct acceptor *acceptor)
{
    char line[ACCEPTOR_LINE];

    if (acceptor->ended || post_accepts(acceptor) == 0)
        return;
    snprintf(line, sizeof(line), "cannot accept: %s: trying again in a second", strerror(errno));
    acceptor->say(line);
    ev_timer_start(acceptor->loop, &acceptor->again);
}

static void say_failed(const struct acceptor *acceptor, int error)
{
    char line[ACCEPTOR_LINE];

    snprintf(line, sizeof(line), "a connection failed: %s", strerror(error));
    acceptor->say(line);
}

void acceptor_event(struct acceptor *acceptor, const exs_event_t *event)
{
    struct acceptor_place *place = event->exs_evt_ahandle;
    int error = event->exs_evt_errno;

    place->posted = false;
    if (error == 0)
        acceptor->came((int)exs_event_result(event), &place->peer);
    else if (!acceptor->ended)
        say_failed(acceptor, error);
    if (error == 0 || error == ECONNABORTED)
        acceptor_more(acceptor);
    else if (!acceptor->ended) /* a resource is exhausted: the next accept would fail at once, too */
        ev_timer_start(acceptor->loop, &acceptor->again);
}

void acceptor_end(struct acceptor *acceptor)
{
    acceptor->ended = true;
    ev_timer_stop(acceptor->loop, &acceptor->again);
}
