/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop_uring.c - an io_uring, through exs_uring.h. An iteration submits, waits, and handles the available
 * completions. A completion for a freed struct fails the test.
 */
#include "loops.h"

#include <exs_uring.h>

enum { MOST = 8, ENTRIES = 4 };

struct own {
    exs_uring w;
    struct world *world;
    bool dropped; /* free it with its last completion */
    bool over;    /* the last completion has arrived */
};

struct world {
    struct io_uring ring;
    struct own *owns[MOST]; /* those that may still get completions */
    struct own *running;    /* the one whose callback runs */
    struct beside *besides[BESIDES];
    int count;
};

static void *uring_open(void)
{
    struct world *world = calloc(1, sizeof(*world));

    ck_assert_ptr_nonnull(world);
    int rc = io_uring_queue_init(ENTRIES, &world->ring, 0);
    ck_assert_msg(rc == 0, "io_uring_queue_init: %s", strerror(-rc));
    return world;
}

static bool uring_allowed(void)
{
    struct io_uring ring;
    int rc = io_uring_queue_init(ENTRIES, &ring, 0);

    if (rc == 0)
        io_uring_queue_exit(&ring);
    return rc != -ENOSYS && rc != -EPERM;
}

static struct own **place_of(struct world *world, struct own *own)
{
    for (int i = 0; i < MOST; i++) {
        if (world->owns[i] == own)
            return &world->owns[i];
    }
    ck_abort_msg("%s", own ? "a completion for a struct that is gone" : "no place for another one");
}

static void forget(struct own *own)
{
    *place_of(own->world, own) = NULL;
    free(own);
}

static void watch_beside(struct world *world, struct beside *b)
{
    struct io_uring_sqe *sqe = exs_uring__sqe(&world->ring);

    ck_assert_ptr_nonnull(sqe);
    io_uring_prep_poll_add(sqe, b->fd, POLLIN);
    io_uring_sqe_set_data(sqe, b);
}

static bool completed_beside(struct world *world, void *data)
{
    for (int i = 0; i < world->count; i++) {
        if (world->besides[i] != data)
            continue;
        world->besides[i]->cb(world->besides[i]);
        watch_beside(world, world->besides[i]);
        return true;
    }
    return false;
}

static void completed(struct world *world, struct own *own)
{
    place_of(world, own);
    world->running = own;
    int rc = exs_uring_complete(&world->ring, &own->w);
    if (world->running) { /* its callback did not drop it */
        ck_assert(rc >= 0 || exs_qfd(own->w.queue) == -1);
        own->over = rc != 0;
        if (own->over && own->dropped)
            forget(own);
    }
    world->running = NULL;
}

static void uring_turn(void *loop)
{
    struct world *world = loop;
    struct io_uring_cqe *cqe;
    int rc = io_uring_submit_and_wait(&world->ring, 1);

    ck_assert_msg(rc >= 0, "io_uring_submit_and_wait: %s", strerror(-rc));
    for (unsigned ready = io_uring_cq_ready(&world->ring); ready > 0; ready--) {
        ck_assert_int_eq(io_uring_peek_cqe(&world->ring, &cqe), 0);
        void *data = io_uring_cqe_get_data(cqe);

        io_uring_cqe_seen(&world->ring, cqe);
        if (data && !completed_beside(world, data))
            completed(world, data);
    }
}

static void events_cb(struct io_uring *ring, exs_uring *own, exs_event_t *events, int count)
{
    struct watch *w = own->data;

    (void)ring;
    ck_assert(count >= 1 && count <= EXS_URING_BATCH);
    w->cb(w, events, count);
}

static void uring_make(void *loop, struct watch *w)
{
    struct own *own = new_buffer(sizeof(*own));

    own->world = loop;
    own->dropped = false;
    own->over = false;
    own->w.data = w;
    exs_uring_init(&own->w, events_cb, w->queue);
    *place_of(loop, NULL) = own;
    w->own = own;
}

static void uring_start(struct watch *w)
{
    struct own *own = w->own;

    own->over = false;
    ck_assert_int_eq(exs_uring_start(&own->world->ring, &own->w), 0);
}

static void uring_stop(struct watch *w)
{
    struct own *own = w->own;

    ck_assert_int_eq(exs_uring_stop(&own->world->ring, &own->w), 0);
}

/* A watcher can be freed immediately in its own callback, otherwise after its last completion. */
static void uring_drop(struct watch *w)
{
    struct own *own = w->own;

    uring_stop(w);
    own->dropped = true;
    if (own->world->running == own)
        own->world->running = NULL;
    else if (!own->over)
        return;
    forget(own);
}

static void uring_beside(void *loop, struct beside *b)
{
    struct world *world = loop;

    world->besides[world->count++] = b;
    watch_beside(world, b);
}

/* Fails if a struct is left whose completion does not arrive. */
static void uring_close(void *loop)
{
    struct world *world = loop;

    for (int i = 0; i < MOST; i++) {
        while (world->owns[i] && world->owns[i]->dropped)
            uring_turn(world);
        ck_assert_ptr_null(world->owns[i]);
    }
    io_uring_queue_exit(&world->ring);
    free(world);
}

const struct loop_kind loop_of_uring = {
    .name = "io_uring",
    .open = uring_open,
    .close = uring_close,
    .turn = uring_turn,
    .make = uring_make,
    .start = uring_start,
    .stop = uring_stop,
    .drop = uring_drop,
    .beside = uring_beside,
    .allowed = uring_allowed,
    .restarts_in_callback = false,
    .stops_behind_delete = true,
};
