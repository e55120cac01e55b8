/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client.c - the client's side of a test: threads, each with its own connections and queues. The threads start their
 * tests after all connections are established. The first failure ends the test.
 */
#include "client.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "counters.h"
#include "driver.h"
#include "link.h"
#include "say.h"

#define PATIENCE 60. /* seconds without an event on any connection of a thread until the test fails */

struct client { /* shared by the threads */
    const struct options *options;
    struct addrinfo *where;
    struct request request; /* sent on all connections */
    struct figures *figures;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock */
    uint32_t ready; /* threads whose connections are all ready */
    bool failed;
};

struct thread { /* used by this thread only, except for its start and end */
    struct client *client;
    pthread_t id;
    uint32_t number;
    struct driver driver;
    ev_timer patience;
    struct link *links;
    uint32_t opened, ready, done, gone;
    bool failed;
    uint64_t moves; /* sum over all links at the last check_progress() */
    uint64_t elapsed, mismatches, mismatches_there;
    exs_stats_t counted;
};

/* ---- Failing ----------------------------------------------------------------------------------------- */

/* Makes the test fail. Only the first failure is printed; other threads then close their connections. */
static void fail_client(struct client *client, const char *why)
{
    pthread_mutex_lock(&client->lock);
    if (!client->failed)
        complain("%s", why);
    client->failed = true;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

static bool has_failed(struct client *client)
{
    pthread_mutex_lock(&client->lock);
    bool failed = client->failed;

    pthread_mutex_unlock(&client->lock);
    return failed;
}

static void fail_links(struct thread *t)
{
    t->failed = true;
    for (uint32_t i = 0; i < t->opened; i++)
        link_fail(&t->links[i], "another connection of the test failed");
}

/* Timer: fails the test if there was no event since the last call, and closes the links if another thread has
 * failed. */
static void check_progress(EV_P_ ev_timer *w, int revents)
{
    struct thread *t = w->data;
    uint64_t moves = 0;

    (void)revents;
    for (uint32_t i = 0; i < t->opened; i++)
        moves += t->links[i].moves;
    if (moves == t->moves)
        fail_client(t->client,
                    "the server does not go on with the test, though its connection stands: giving up");
    t->moves = moves;
    if (has_failed(t->client) && !t->failed)
        fail_links(t);
    ev_timer_again(EV_A_ w);
}

/* ---- Notifications of the connections ----------------------------------------------------------------- */

static void handle_news(struct link *link, enum news news)
{
    struct thread *t = link->owner;

    switch (news) {
    case LINK_READY:
        t->ready++;
        break;
    case LINK_DONE:
        t->done++;
        t->mismatches += link->mismatches;
        t->mismatches_there += link->mismatches_there;
        break;
    case LINK_FAILED:
        if (!t->failed)
            fail_client(t->client, link->failure);
        if (!t->failed)
            fail_links(t);
        break;
    case LINK_GONE:
        t->gone++;
        break;
    }
    if (t->ready == t->opened || t->done == t->opened || t->gone == t->opened)
        driver_stop(&t->driver);
}

static void open_links(struct thread *t)
{
    const struct options *o = t->client->options;

    for (uint32_t i = 0; i < o->connections && !t->failed; i++) {
        struct link *link = &t->links[i];

        link->owner = t;
        link->tell = handle_news;
        link->version = WIRE_VERSION;
        link->figures = t->client->figures;
        link->request = t->client->request;
        link->request.number = t->number * o->connections + i;
        t->opened = i + 1;
        if (link_connect(link, t->client->where, t->driver.lanes[i % (uint32_t)t->driver.count].queue) == -1) {
            fail_client(t->client, link->failure);
            t->opened = i;
            fail_links(t);
        }
    }
}

/* Waits until all threads are ready. Returns false if one of them failed. */
static bool all_ready(struct thread *t)
{
    struct client *client = t->client;

    if (t->failed)
        return false;
    pthread_mutex_lock(&client->lock);
    client->ready++;
    pthread_cond_broadcast(&client->changed);
    while (client->ready < client->options->threads && !client->failed)
        pthread_cond_wait(&client->changed, &client->lock);
    bool all = !client->failed;

    pthread_mutex_unlock(&client->lock);
    return all;
}

static void run_exchange(struct thread *t)
{
    uint64_t began = clock_now();

    for (uint32_t i = 0; i < t->opened; i++)
        link_start(&t->links[i]);
    while (t->done < t->opened && t->gone < t->opened)
        driver_run(&t->driver);
    t->elapsed = clock_now() - began;
}

static void run_thread(struct thread *t)
{
    open_links(t);
    while (t->ready < t->opened && t->gone < t->opened)
        driver_run(&t->driver);
    t->moves = UINT64_MAX;
    if (all_ready(t))
        run_exchange(t);
    else if (!t->failed)
        fail_links(t);
    while (t->gone < t->opened)
        driver_run(&t->driver);
}

static void *thread_main(void *argument)
{
    struct thread *t = argument;
    const struct options *o = t->client->options;

    t->links = calloc(o->connections, sizeof(*t->links));
    if (t->links == NULL ||
        driver_open(&t->driver, o->shared_queue ? 1 : (int)o->connections, options_poll(o)) == -1) {
        fail_client(t->client, strerror(errno));
        free(t->links);
        return NULL;
    }
    ev_init(&t->patience, check_progress);
    t->patience.repeat = PATIENCE;
    t->patience.data = t;
    ev_timer_again(t->driver.loop, &t->patience);
    run_thread(t);
    ev_timer_stop(t->driver.loop, &t->patience);
    driver_count(&t->driver, &t->counted);
    if (driver_close(&t->driver) == -1)
        fail_client(t->client, "an event queue is still in use after its connections are closed");
    free(t->links);
    return NULL;
}

/* ---- The test ---------------------------------------------------------------------------------------- */

static bool find_server(struct client *client)
{
    const struct options *o = client->options;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(o->server, o->port, &hints, &client->where);

    if (error != 0)
        complain("server %s: %s", o->server, error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    return error == 0;
}

static void make_request(struct client *client)
{
    const struct options *o = client->options;

    client->request = (struct request){.test = o->test,
                                       .flags = (o->validate ? REQUEST_VALIDATE : 0u) |
                                                (options_poll(o) ? REQUEST_POLLING : 0u),
                                       .total = o->threads * o->connections,
                                       .iterations = o->iterations,
                                       .pipeline = o->pipeline,
                                       .ops = o->ops};
    if (getrandom(&client->request.session, sizeof(client->request.session), 0) < 0)
        client->request.session = clock_now();
}

static void run_threads(struct client *client, struct thread *threads, struct outcome *outcome)
{
    uint32_t started = 0, wanted = client->options->threads;

    for (; started < wanted; started++) {
        struct thread *t = &threads[started];

        *t = (struct thread){.client = client, .number = started};
        int error = pthread_create(&t->id, NULL, thread_main, t);

        if (error != 0) {
            fail_client(client, strerror(error));
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(threads[i].id, NULL);
        counters_join(&outcome->counted, &threads[i].counted);
        outcome->mismatches += threads[i].mismatches;
        outcome->mismatches_there += threads[i].mismatches_there;
        if (threads[i].elapsed > outcome->elapsed)
            outcome->elapsed = threads[i].elapsed;
    }
}

struct outcome client_run(const struct options *options)
{
    struct client client = {
        .options = options, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct thread *threads = calloc(options->threads, sizeof(*threads));
    struct outcome outcome = {0};

    client.figures = &outcome.figures;
    if (options->test == 'P')
        outcome.figures.latency = calloc(LATENCIES_MAX, sizeof(*outcome.figures.latency));
    if (threads == NULL || (options->test == 'P' && outcome.figures.latency == NULL)) {
        complain("no memory");
        client.failed = true;
    } else if (!find_server(&client)) {
        client.failed = true;
    } else {
        make_request(&client);
        run_threads(&client, threads, &outcome);
        freeaddrinfo(client.where);
    }
    free(threads);
    outcome.passed = !client.failed && outcome.mismatches == 0 && outcome.mismatches_there == 0;
    return outcome;
}
