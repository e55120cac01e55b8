/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * talker.c - talker blocking|events stream|seqpacket client|server: two processes communicate. In the named
 * one, which is this process, calls of the library fail (fail.h).
 *
 * They connect twice. In the first round any operation may fail, and is cleaned up. Then the failures end, and
 * in the second round every operation must succeed. The client tells the server when the first round is over.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fail.h"
#include "talk.h"

#define PAUSE_MS 20 /* ms until a failed accept is repeated, unless the client's message arrives before */

static struct talk talk;
static struct actor actor;
static bool victim;            /* this process; no calls fail in the other one */
static int other;              /* a socket to the other process */
static _Atomic bool recovered; /* in the victim: the failures have ended */

static void recover(void)
{
    if (torture_disarm != NULL)
        torture_disarm();
    atomic_store(&recovered, true);
}

/* Must be called before anything that may fail. The other process cannot know what failed in the victim. */
static void set_may_fail(int round)
{
    actor.may_fail = round == 1;
}

static bool init(void)
{
    return exs_init(EXS_VERSION) == 0 || failed(&actor, "exs_init");
}

/* ---- Client -------------------------------------------------------------------------------------------- */

static bool meet(const struct sockaddr_in *to, int round)
{
    const struct timeval limit = {.tv_sec = 3};
    int socket = exs_socket(PF_INET, talk.type, 0);

    if (socket == -1)
        return failed(&actor, "exs_socket");
    if (!await(&actor, act_connect(&actor, socket, (const struct sockaddr *)to, sizeof(*to),
                                   round == 1 ? &limit : NULL))) {
        close_surely(&actor, socket);
        return false;
    }
    return talk_as_client(&actor, &talk, socket, round);
}

static void client(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char byte = 'd';

    if (recv(other, &to.sin_port, sizeof(to.sin_port), MSG_WAITALL) != sizeof(to.sin_port))
        fault(&actor, "the server ended");
    for (int round = 1; round <= ROUNDS; round++) {
        set_may_fail(round);
        if (init() && actor_open(&actor)) {
            meet(&to, round);
            actor_close(&actor);
        }
        recover();
        if (round == 1 && !victim &&
            (send(other, &byte, 1, MSG_NOSIGNAL) != 1 || recv(other, &byte, 1, 0) != 1))
            fault(&actor, "the server ended");
    }
}

/* ---- Server -------------------------------------------------------------------------------------------- */

/* Receives the client's message that the first round is over, also while the main thread waits. */
static void *listen_to_client(void *unused)
{
    char byte;

    if (recv(other, &byte, 1, 0) == 1) {
        recover();
        if (send(other, &byte, 1, MSG_NOSIGNAL) != 1)
            _Exit(FAULT);
    }
    return unused;
}

static int open_listener(struct sockaddr_in *here)
{
    socklen_t length = sizeof(*here);
    int socket = exs_socket(PF_INET, talk.type, 0);

    if (socket == -1)
        return failed(&actor, "exs_socket"), -1;
    if (exs_bind(socket, (struct sockaddr *)here, sizeof(*here)) == -1)
        failed(&actor, "exs_bind");
    else if (exs_listen(socket, 4) == -1)
        failed(&actor, "exs_listen");
    else if (exs_getsockname(socket, (struct sockaddr *)here, &length) == -1)
        failed(&actor, "exs_getsockname");
    else
        return socket;
    close_surely(&actor, socket);
    return -1;
}

/* If the server cannot be started during the shortage, it must be possible afterwards. */
static int begin_server(struct sockaddr_in *here)
{
    for (int attempt = 1; attempt <= ROUNDS; attempt++) {
        set_may_fail(attempt);
        if (init() && actor_open(&actor)) {
            int listener = open_listener(here);

            if (listener != -1)
                return listener;
            actor_close(&actor);
        }
        recover();
    }
    fault(&actor, "no listener");
}

static void server(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = begin_server(&here), round = 0;
    pthread_t thread;
    bool good = false;

    actor.may_fail = true;
    if (send(other, &here.sin_port, sizeof(here.sin_port), MSG_NOSIGNAL) != sizeof(here.sin_port))
        fault(&actor, "the client ended");
    if (victim)
        pthread_create(&thread, NULL, listen_to_client, NULL);
    while (!good || round < ROUNDS) {
        struct op *op = act_accept(&actor, listener);

        if (await(&actor, op))
            good = talk_as_server(&actor, &talk, op->socket, &round);
        else if (!atomic_load(&recovered))
            poll(&(struct pollfd){.fd = other, .events = POLLIN}, 1, PAUSE_MS);
    }
    if (victim)
        pthread_join(thread, NULL);
    close_surely(&actor, listener);
    actor_close(&actor);
}

/* ---- Both ---------------------------------------------------------------------------------------------- */

static pid_t fork_other(bool as_client, int ends[2])
{
    pid_t pid = fork();

    if (pid == -1)
        abort();
    victim = pid != 0;
    other = ends[victim];
    close(ends[!victim]);
    if (victim) {
        actor.name = as_client ? "client" : "server";
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (torture_disarm != NULL)
        torture_disarm();
    actor.name = as_client ? "other server" : "other client";
    return 0;
}

int main(int argc, char **argv)
{
    int ends[2], status = 0;

    if (argc != 4 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == -1) {
        fprintf(stderr, "usage: talker blocking|events stream|seqpacket client|server\n");
        return 2;
    }
    actor.events = strcmp(argv[1], "events") == 0;
    talk.type = strcmp(argv[2], "stream") == 0 ? SOCK_STREAM : SOCK_SEQPACKET;
    talk_prepare(&talk);

    bool as_client = strcmp(argv[3], "client") == 0;
    pid_t pid = fork_other(as_client, ends);

    if (as_client == victim)
        client();
    else
        server();
    if (!victim)
        return 0;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        fault(&actor, "the other one ended with status %#x", (unsigned)status);
    if (torture_report != NULL)
        torture_report();
    return 0;
}
