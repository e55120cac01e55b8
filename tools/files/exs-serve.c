/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs-serve [OPTION...] DIR - stores files from exs-put in DIR, and sends files in DIR to exs-get; serves many clients
 * at once.
 *
 * One process with one thread, one libev loop and one event queue. Only the loop blocks.
 * This file has main(), the listener and signals. settings.c parses options; acceptor.c accepts connections; inlet.c
 * handles one connection; intake.c parses what the client sends; store.c writes files; giving.c reads files.
 */
#include <errno.h>
#include <exs_ev.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/common/acceptor.h"
#include "inlet.h"
#include "log.h"
#include "settings.h"
#include "tools/common/options.h"
#include "tools/common/resolve.h"
#include "tools/common/standard.h"
#include "tools/common/terminal.h"

enum {
    QUEUE_DEPTH = 4096,
    FILES_SERVER = 56, /* descriptors of the process, of the device, and of kept files (KEPT_MAX) */
    FILES_EACH = 7     /* descriptors of a connection and its file, and of a connection in the backlog */
};

/* Owned by main, used by the loop's thread only. */
static struct server {
    struct inlets inlets;
    exs_ev events;
    ev_signal interrupt, terminate;
    ev_timer second, soon;
    int listener;
    bool ending, listener_closed;
    struct acceptor acceptor;
} server;

static _Noreturn void exit_failing(const char *what)
{
    fprintf(stderr, "exs-serve: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int free_places(void)
{
    return server.inlets.most - server.inlets.count;
}

static void client_came(int socket, const struct sockaddr_storage *peer)
{
    inlet_open(&server.inlets, socket, peer);
}

static void say_why(const char *why)
{
    inlets_say(&server.inlets, "%s", why);
}

static void second_cb(EV_P_ ev_timer *w, int revents)
{
    (void)loop, (void)revents;
    inlets_second(w->data);
}

static void soon_cb(EV_P_ ev_timer *w, int revents)
{
    (void)loop, (void)revents;
    inlets_read(w->data);
    recent_forget(&server.inlets.store.recent);
}

/* Calls inlets_read() in the next iteration of the loop, so that other events are handled in between. */
static void run_again(struct inlets *inlets)
{
    ev_timer_set(&server.soon, 0., 0.);
    ev_timer_start(inlets->loop, &server.soon);
}

static void end_when_quiet(struct server *s)
{
    if (!s->listener_closed || s->inlets.count > 0)
        return;
    exs_ev_stop(s->inlets.loop, &s->events);
    ev_timer_stop(s->inlets.loop, &s->second);
    log_line(stdout, "ended");
    ev_break(s->inlets.loop, EVBREAK_ALL);
}

static void client_gone(struct inlets *inlets)
{
    (void)inlets;
    acceptor_more(&server.acceptor);
    if (server.ending)
        end_when_quiet(&server);
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct server *s = w->data;

    (void)loop;
    for (exs_event_t *event = events; event < events + count; event++) {
        if (event->exs_evt_type == EXS_EVT_ACCEPT) {
            acceptor_event(&s->acceptor, event);
        } else if (event->exs_evt_ahandle != NULL) {
            inlet_event(event->exs_evt_ahandle, event);
        } else if (event->exs_evt_type == EXS_EVT_CLOSE) {
            s->listener_closed = true;
            end_when_quiet(s);
        }
    }
    recent_forget(&s->inlets.store.recent);
}

/* The first signal: stops accepting connections, and lets the current files finish. */
static void begin_to_end(struct server *s)
{
    acceptor_end(&s->acceptor);
    s->ending = true;
    int busy = inlets_finish(&s->inlets);

    if (busy > 0)
        log_line(stderr, "ending, when %d %s under way: a second signal drops what has not arrived", busy,
                 busy == 1 ? "file is no longer" : "files are no longer");
    if (exs_close(s->listener, 0, s->inlets.queue, NULL) == -1)
        exit_failing("exs_close");
}

/* A second signal closes all connections. A third one has its default action and ends the process. */
static void signal_cb(EV_P_ ev_signal *w, int revents)
{
    struct server *s = w->data;

    (void)revents;
    if (!s->ending) {
        begin_to_end(s);
        return;
    }
    ev_signal_stop(EV_A_ & s->interrupt);
    ev_signal_stop(EV_A_ & s->terminate);
    inlets_close_all(&s->inlets);
}

static void watch_signals(struct server *s)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGPIPE, &ignore, NULL); /* standard output may be a pipe whose reader closes it */
    sigaction(SIGHUP, &ignore, NULL);  /* the terminal may close; there is no configuration file to reload */
    ev_signal_init(&s->interrupt, signal_cb, SIGINT);
    ev_signal_init(&s->terminate, signal_cb, SIGTERM);
    s->interrupt.data = s->terminate.data = s;
    ev_signal_start(s->inlets.loop, &s->interrupt);
    ev_signal_start(s->inlets.loop, &s->terminate);
}

/* A name that cannot be resolved yet, for example because the network is not up, is not an invalid command line: the
 * exit status is 1, not 2, so that systemd's unit restarts the program. */
static struct addrinfo *resolve_or_end(const char *host, const char *port)
{
    char why[RESOLVE_TEXT_MAX];
    struct addrinfo *addresses = resolve(host, port, true, why);

    if (addresses != NULL)
        return addresses;
    if (errno == EINVAL)
        options_wrong("exs-serve", "%s", why);
    fprintf(stderr, "exs-serve: %s\n", terminal_filter(why));
    exit(1);
}

static bool listens_at(struct server *s, const struct addrinfo *address)
{
    s->listener = exs_socket(address->ai_family, SOCK_STREAM, 0);
    if (s->listener == -1)
        exit_failing("exs_socket");
    if (exs_bind(s->listener, address->ai_addr, address->ai_addrlen) == 0 &&
        exs_listen(s->listener, s->inlets.most) == 0)
        return true;
    int error = errno;

    exs_close(s->listener, 0, NULL, NULL);
    errno = error;
    return false;
}

static _Noreturn void fail_to_listen(const struct addrinfo *address)
{
    struct sockaddr_storage here = {0};
    char text[OPTIONS_ADDRESS_MAX];
    const char *advice = "";
    int error = errno;

    if (error == EADDRNOTAVAIL)
        advice = ": give -a an address of this host that a device has; real ones have no loopback";
    else if (error == EADDRINUSE)
        advice = ": another server has this port: end that, or give -p another one";
    memcpy(&here, address->ai_addr, address->ai_addrlen);
    fprintf(stderr, "exs-serve: %s: %s%s\n", options_address_text(&here, text), strerror(error), advice);
    exit(1);
}

/* Listens on the first address on which that succeeds. */
static void listen_on(struct server *s, const struct addrinfo *addresses)
{
    struct sockaddr_storage here;
    socklen_t length = sizeof(here);
    char text[OPTIONS_ADDRESS_MAX], device[32];

    while (!listens_at(s, addresses)) {
        if (addresses->ai_next == NULL)
            fail_to_listen(addresses);
        addresses = addresses->ai_next;
    }
    s->acceptor = (struct acceptor){.loop = s->inlets.loop,
                                    .queue = s->inlets.queue,
                                    .listener = s->listener,
                                    .room = free_places,
                                    .came = client_came,
                                    .say = say_why};
    if (acceptor_begin(&s->acceptor) == -1)
        exit_failing("exs_accept");
    if (exs_getsockname(s->listener, (struct sockaddr *)&here, &length) == -1)
        exit_failing("exs_getsockname");
    if (exs_getdevice(s->listener, device, sizeof(device)) == -1)
        exit_failing("exs_getdevice");
    log_line(stdout, "listening on %s, device %s", options_address_text(&here, text), device);
}

static void prepare_loop(struct server *s)
{
    s->inlets.loop = ev_default_loop(0);
    if (s->inlets.loop == NULL)
        exit_failing("no loop");
    if (exs_init(EXS_VERSION) == -1)
        exit_failing("cannot start (EXS_DEBUG=1 says why)");
    s->inlets.queue = exs_qcreate(QUEUE_DEPTH);
    if (s->inlets.queue == EXS_QHANDLE_INVALID)
        exit_failing("exs_qcreate");
    s->inlets.gone = client_gone;
    s->inlets.again = run_again;
    ev_timer_init(&s->second, second_cb, 1., 1.);
    ev_timer_init(&s->soon, soon_cb, 0., 0.);
    s->second.data = s->soon.data = &s->inlets;
    ev_timer_start(s->inlets.loop, &s->second);
    s->events.data = s;
    exs_ev_init(&s->events, events_cb, s->inlets.queue);
    exs_ev_start(s->inlets.loop, &s->events);
    watch_signals(s);
}

/* Returns the number of connections for which the process has descriptors. Further connections wait in the listener's
 * backlog and are not refused. */
static int find_most_connections(void)
{
    const unsigned long wanted = FILES_SERVER + CONNECTIONS_MAX * FILES_EACH;
    unsigned long files = standard_raise_files(wanted);

    if (files == wanted)
        return CONNECTIONS_MAX;
    if (files < FILES_SERVER + FILES_EACH) {
        fprintf(stderr, "exs-serve: the limit on open files is %lu, and %d are needed: raise it (ulimit -n)\n",
                files, FILES_SERVER + FILES_EACH);
        exit(1);
    }
    int most = (int)((files - FILES_SERVER) / FILES_EACH);

    log_line(stderr,
             "the limit on open files is %lu, enough for %d connections at once, later ones wait: "
             "for %d raise it to %lu (ulimit -n)",
             files, most, CONNECTIONS_MAX, wanted);
    return most;
}

static void *do_nothing(void *unused)
{
    return unused;
}

/* The device starts a thread for the first client. If that failed, it would refuse all clients; therefore the program
 * checks at its start that it can create a thread. */
static void check_threads(void)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, do_nothing, NULL);

    if (error == 0) {
        pthread_join(thread, NULL);
        return;
    }
    fprintf(
        stderr,
        "exs-serve: cannot start a thread: %s: raise the limit on processes (ulimit -u, TasksMax of systemd, "
        "pids.max of a container)\n",
        strerror(error));
    exit(1);
}

/* Prints the limits for clients, and the limit on descriptors from which they follow. */
static void report_limits(const struct server *s)
{
    const struct store_limits *limits = &s->inlets.store.limits;
    struct rlimit files = {0};

    getrlimit(RLIMIT_NOFILE, &files);
    log_line(stdout,
             "limits: %d connections (%llu descriptors allow %d), %d of one address; %" PRIu64
             " bytes and %" PRIu64 " files in all, %" PRIu64 " bytes a file",
             s->inlets.most, (unsigned long long)files.rlim_cur, s->inlets.most, s->inlets.of_one,
             limits->total, limits->files, limits->file != 0 ? limits->file : limits->total);
}

/* Checks at the start that the directory is writable, so that the user sees the error and not each client. */
static void check_writable(int directory, const char *path)
{
    if (faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) == 0)
        return;
    fprintf(stderr, "exs-serve: %s: cannot write there: %s: let this user write, or give what is there (-g)\n",
            path, strerror(errno));
    exit(1);
}

static void open_directory(struct server *s, const char *path, const struct store_limits *limits)
{
    if (store_open(&s->inlets.store, path, limits) == 0) {
        if (!limits->gives)
            check_writable(s->inlets.store.directory, path);
        return;
    }
    if (errno != EBUSY)
        exit_failing(path);
    fprintf(stderr, "exs-serve: %s: another exs-serve has this directory: end it first\n", path);
    exit(1);
}

int main(int argc, char **argv)
{
    struct server *s = &server;

    standard_open();
    standard_outlive_limit();
    struct settings settings = settings_read(argc, argv);

    inlets_begin(&s->inlets);
    s->inlets.patience = settings.patience;
    s->inlets.rate = settings.rate;
    s->inlets.most = find_most_connections();
    s->inlets.of_one = settings.of_one;
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct addrinfo *addresses = resolve_or_end(settings.host, settings.port);
    open_directory(s, settings.directory, &settings.limits);
    check_threads();
    prepare_loop(s);
    listen_on(s, addresses);
    report_limits(s);
    freeaddrinfo(addresses);
    ev_run(s->inlets.loop, 0);

    inlets_free(&s->inlets);
    store_close(&s->inlets.store);
    if (exs_qdelete(s->inlets.queue) == -1)
        exit_failing("exs_qdelete");
    return 0;
}
