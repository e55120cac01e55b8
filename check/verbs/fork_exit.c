/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork_exit.c - children of a process that uses a device, which call exit(3) without using it. A child must not use the
 * device's descriptors: the child has reused their numbers for its own files.
 *
 * A thread of the parent sends messages to and fro, so that a packet or an acknowledgement is nearly always pending
 * when a child is forked; and there is a connection. For these the software device sends packets when a process exits.
 * The child opens a socket at each number that the parent may have used, and checks that nothing arrives at the other
 * end.
 *
 * usage: verbs-fork-exit [-d DEVICE]
 */
#include "ends.h"
#include "work.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 150, NUMBERS = 256 /* nearly the limit of the process: the device uses high numbers */ };
enum way { FORK, FORK_AND_THREAD_EXIT, BARE_FORK, WAYS };

static struct rig rig;
static atomic_bool over;
static int is_child;

/* Memory of the parent's threads is not a leak of the child. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

/* ---- Two pairs of queue pairs: a busy one, and one connected by the connection manager ---- */

static struct rdma_cm_event *expect(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = cm_next_event(id);

    if (event->event != type)
        give_up(cm_event_name(event), -event->status);
    return event;
}

static void *serve(void *listener)
{
    struct rdma_conn_param param = {.responder_resources = 1};
    struct rdma_cm_event *event = expect(listener, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;

    cm_make_qp(server, IBV_QPT_RC);
    must(rdma_accept(server, &param), "rdma_accept");
    must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    must(rdma_ack_cm_event(expect(listener, RDMA_CM_EVENT_ESTABLISHED)), "rdma_ack_cm_event");
    return NULL;
}

/* Establishes a connection that exists until the end of the process. */
static void connect_ids(void)
{
    struct rdma_conn_param param = {.responder_resources = 1, .retry_count = 7, .rnr_retry_count = 7};
    struct rdma_cm_id *listener = cm_listen(&rig, RDMA_PS_TCP), *client = cm_prepare(listener, RDMA_PS_TCP);
    pthread_t thread;

    must(pthread_create(&thread, NULL, serve, listener), "pthread_create");
    must(rdma_connect(client, &param), "rdma_connect");
    must(rdma_ack_cm_event(expect(client, RDMA_CM_EVENT_ESTABLISHED)), "rdma_ack_cm_event");
    must(pthread_join(thread, NULL), "pthread_join");
}

/* Sends a message and waits for its arrival. Ignores completions of sends. */
static void pass_message(struct rig_end *from, struct rig_end *to, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)from->memory, length, from->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    struct ibv_wc wc = {.opcode = IBV_WC_SEND};

    receive(to, 7, 8192);
    must(ibv_post_send(from->qp, &wr, &bad), "ibv_post_send");
    while (wc.opcode != IBV_WC_RECV)
        if (!completion_within(to, &wc, PATIENCE) || wc.status != IBV_WC_SUCCESS)
            give_up("message", EIO);
}

/* A thread of the parent. It calls no function that takes a lock which a child may need. */
static void *pass_messages(void *unused)
{
    for (uint32_t length = 1; !over; length = length % 8000 + 77) {
        pass_message(&rig.a, &rig.b, length);
        pass_message(&rig.b, &rig.a, 1);
    }
    return unused;
}

/* ---- Children ---- */

/* Opens a TCP connection: its sockets also accept a sendmsg(2) with a destination address. */
static void open_foreign(int foreign[2])
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    foreign[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (listen(listener, 1) == -1 || getsockname(listener, (struct sockaddr *)&here, &length) == -1 ||
        connect(foreign[0], (struct sockaddr *)&here, length) == -1 ||
        (foreign[1] = accept(listener, NULL, NULL)) == -1)
        give_up("TCP", errno);
    close(listener);
}

/* Closes all inherited descriptors, like a daemon without fork handlers, and opens other files at their numbers. */
static void take_numbers(int own)
{
    for (int number = STDERR_FILENO + 1; number < NUMBERS; number++)
        if (number != own && dup2(own, number) == -1)
            _exit(1);
}

static pid_t fork_child(enum way way, int own)
{
    pid_t pid = way == BARE_FORK ? _Fork() : fork();

    if (pid != 0)
        return pid;
    is_child = 1;
    alarm(20);
    take_numbers(own);
    if (way == FORK_AND_THREAD_EXIT)
        pthread_exit(NULL);
    exit(0);
}

static void expect_quiet_child(enum way way, const int foreign[2])
{
    char bytes[4096];
    int status;
    pid_t pid = fork_child(way, foreign[0]);

    if (pid == -1 || waitpid(pid, &status, 0) != pid)
        give_up("fork", errno);
    if (status != 0) {
        fprintf(stderr, "a child ends with status 0x%x\n", (unsigned)status);
        exit(1);
    }
    ssize_t got = recv(foreign[1], bytes, sizeof bytes, MSG_DONTWAIT);
    if (got != -1) {
        fprintf(stderr, "%zd bytes went to a child's own socket\n", got);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *device = argc == 3 ? argv[2] : NULL;
    const struct rlimit limit = {NUMBERS + 8, NUMBERS + 8};
    pthread_t thread;
    int foreign[2];

    must(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
    rig_open(&rig, device);
    rig_pair(&rig, IBV_QPT_RC);
    connect_ids();
    open_foreign(foreign);
    must(pthread_create(&thread, NULL, pass_messages, NULL), "pthread_create");
    for (int i = 0; i < CHILDREN * WAYS; i++)
        expect_quiet_child((enum way)(i % WAYS), foreign);
    over = true;
    must(pthread_join(thread, NULL), "pthread_join"); /* the parent's traffic was not disturbed */
    printf("%d children\n", CHILDREN * WAYS);
    return 0;
}
