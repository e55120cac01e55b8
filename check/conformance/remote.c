/* SPDX-License-Identifier: BSD-2-Clause */
/* remote.c - a peer on another host: the same orders and answers as in peer.c, over TCP instead of a socket pair. */
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trial.h"

/* Returns a TCP socket that is connected to this address or, if passive, listens on it; or -1 and errno. */
static int open_tcp(const char *host, const char *port, bool passive)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0}, *found;
    int yes = 1;

    if (getaddrinfo(host, port, &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && passive)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (fd >= 0 && (passive ? bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, 16) < 0
                            : connect(fd, found->ai_addr, found->ai_addrlen) < 0)) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

void remote_start(struct trial *trial)
{
    const struct options *options = trial->options;

    trial->peer = open_tcp(options->peer, options->orders, false);
    if (trial->peer < 0)
        broken(trial, "connecting to the peer: start exs-conformance --serve there");
}

/* Sets the handler of SIGCHLD. SIG_IGN: exited children are reaped automatically. */
static void on_child(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    sigaction(SIGCHLD, &action, NULL);
}

/* Serves the connection of one test. The test closes the connection at its end, or to kill its peer: the peer is then
 * killed. */
static void attend(int orders)
{
    struct pollfd gone = {.fd = orders, .events = POLLRDHUP};

    on_child(SIG_DFL);
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        peer_serve(orders);
    }
    while (pid > 0 && poll(&gone, 1, -1) < 0 && errno == EINTR)
        ;
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    _exit(0);
}

int remote_serve(const struct options *options)
{
    const char *host = strcmp(options->address, "localhost") == 0 ? "127.0.0.1" : options->address;
    int listener = open_tcp(host, options->orders, true), orders;

    if (listener < 0) {
        fprintf(stderr, "exs-conformance: can't listen on %s port %s: %m\n", host, options->orders);
        return 2;
    }
    on_child(SIG_IGN);
    while ((orders = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == EINTR ||
           errno == ECONNABORTED) {
        if (orders < 0)
            continue;
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(listener);
            attend(orders);
        }
        close(orders);
    }
    perror("exs-conformance: accept");
    return 2;
}
