/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wall.c - a bench in real time. The time of a packet is that at which the kernel received it, not that at which the
 * tester read it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "wall.h"

#define UDP_HEADER 8
#define LATE (60 * IBTA_MS)       /* delay by the scheduler of a busy machine */
#define PATIENCE (2000 * IBTA_MS) /* timeout for packets that should arrive immediately */
#define TRIES 10
#define BREATH (IBTA_MS / 100) /* ns: two clocks that are read within this time count as read at once */

static uint64_t read_clock(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static uint64_t now(struct bench *bench)
{
    (void)bench;
    return read_clock(CLOCK_MONOTONIC);
}

static void send_to_dut(struct bench *bench, const uint8_t *packet, size_t length)
{
    struct wall *wall = (struct wall *)bench;
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = bench->to_dut.to_port, .sin_addr = bench->to_dut.to};

    if (sendto(wall->out, packet, length, 0, (struct sockaddr *)&to, sizeof to) == -1)
        bench_fail("sending a packet", errno);
}

static void wait(struct bench *bench, struct channel *channel, uint64_t until)
{
    struct timespec time = {.tv_sec = (time_t)(until / UINT64_C(1000000000)),
                            .tv_nsec = (long)(until % UINT64_C(1000000000))};

    pthread_cond_timedwait(&channel->news, &bench->lock, &time);
}

static int path(struct bench *bench, struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
    (void)qp;
    attr->ah_attr = ((struct wall *)bench)->way;
    return IBV_QP_AV;
}

/* ---- Receiving ---- */

/* Reads both clocks at the same time: of several attempts, takes the one with the shortest time between the reads. */
static void read_both_clocks(uint64_t *here, uint64_t *there)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < TRIES && least > BREATH; i++) {
        uint64_t before = read_clock(CLOCK_MONOTONIC), between = read_clock(CLOCK_REALTIME);
        uint64_t took = read_clock(CLOCK_MONOTONIC) - before;

        if (took < least) {
            least = took;
            *here = before;
            *there = between;
        }
    }
}

/* Converts the kernel's time stamp, which is of CLOCK_REALTIME, to CLOCK_MONOTONIC by the age of the packet. */
static uint64_t arrival_time(struct msghdr *header)
{
    uint64_t here = 0, there = 0, stamp;

    read_both_clocks(&here, &there);
    stamp = there;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg != NULL; cmsg = CMSG_NXTHDR(header, cmsg))
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec time;

            memcpy(&time, CMSG_DATA(cmsg), sizeof time);
            stamp = (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
        }
    return stamp < there ? here - (there - stamp) : here;
}

/* Parses the headers into `frame`. Returns their length in bytes, or 0 if the packet is not from the device to the
 * tester. */
static size_t read_headers(const struct wall *wall, const uint8_t *bytes, size_t length, struct frame *frame)
{
    struct ip ip;
    size_t size;

    if (length < sizeof ip)
        return 0;
    memcpy(&ip, bytes, sizeof ip);
    size = ip.ip_hl * 4u;
    if (ip.ip_p != IPPROTO_UDP || length < size + UDP_HEADER ||
        ip.ip_src.s_addr != wall->bench.to_dut.to.s_addr)
        return 0;
    frame->from = ip.ip_src;
    frame->to = ip.ip_dst;
    frame->id = ntohs(ip.ip_id);
    frame->fragment = ntohs(ip.ip_off);
    memcpy(&frame->from_port, bytes + size, 2);
    memcpy(&frame->to_port, bytes + size + 2, 2);
    return frame->to_port == wall->bench.to_dut.from_port ? size + UDP_HEADER : 0;
}

/* Receives and records a datagram. Returns false if there is none. */
static bool take(struct wall *wall)
{
    uint8_t bytes[FRAME_MAX + 128];
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec vector = {bytes, sizeof bytes};
    struct sockaddr_in from;
    struct msghdr header = {.msg_name = &from,
                            .msg_namelen = sizeof from,
                            .msg_iov = &vector,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control};
    ssize_t got = recvmsg(wall->in, &header, MSG_DONTWAIT);
    const struct frame *own = &wall->bench.to_dut;
    struct frame frame = {
        .from = own->to, .to = own->from, .to_port = own->from_port, .id = FRAME_ANY_ID, .fragment = FRAME_DF};
    size_t before = 0;

    if (got == -1)
        return errno == ECONNREFUSED || errno == EINTR;
    frame.from_port = from.sin_port;
    if (wall->headers && (before = read_headers(wall, bytes, (size_t)got, &frame)) == 0)
        return true;
    bench_arrival(&wall->bench, arrival_time(&header), &frame, bytes + before, (size_t)got - before);
    return true;
}

/* Each queue is armed before it is polled, so that a completion in between is not missed. */
static void take_completions(struct wall *wall)
{
    struct ibv_cq *cq;
    void *context;

    pthread_mutex_lock(&wall->bench.lock);
    while (wall->bench.device->get_cq_event(wall->bench.events, &cq, &context) == 0) {
        struct channel *channel = context;

        wall->bench.device->ack_cq_events(cq, 1);
        if (ibv_req_notify_cq(cq, 0) != 0)
            bench_fail("ibv_req_notify_cq", errno);
        if (channel_poll(channel))
            pthread_cond_signal(&channel->news);
    }
    pthread_mutex_unlock(&wall->bench.lock);
}

static void *run(void *argument)
{
    struct wall *wall = argument;
    struct pollfd fds[] = {{.fd = wall->in, .events = POLLIN},
                           {.fd = wall->bench.events->fd, .events = POLLIN},
                           {.fd = wall->quit, .events = POLLIN}};

    while (fds[2].revents == 0) {
        if (poll(fds, 3, -1) == -1 && errno != EINTR)
            bench_fail("poll", errno);
        while (take(wall))
            ;
        if (fds[1].revents != 0)
            take_completions(wall);
    }
    return NULL;
}

/* ---- Start and end ---- */

static void stop(struct bench *bench)
{
    struct wall *wall = (struct wall *)bench;
    const uint64_t one = 1;

    if (!wall->running)
        return;
    if (write(wall->quit, &one, sizeof one) != sizeof one)
        bench_fail("ending the tester's thread", errno);
    pthread_join(wall->thread, NULL);
    wall->running = false;
}

static void close_bench(struct bench *bench)
{
    struct wall *wall = (struct wall *)bench;

    wall->close_device(bench->context);
    if (wall->in != wall->out)
        close(wall->in);
    close(wall->out);
    close(wall->quit);
    free(wall);
}

int wall_socket(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP), whole = IP_PMTUDISC_DO;

    if (fd != -1 && setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof whole) == -1)
        bench_fail("IP_MTU_DISCOVER", errno);
    return fd;
}

struct bench *wall_start(struct wall *wall)
{
    struct bench *bench = &wall->bench;
    int on = 1, size = 4 << 20, error;

    bench->late = LATE;
    bench->patience = PATIENCE;
    bench->now = now;
    bench->send = send_to_dut;
    bench->wait = wait;
    bench->path = path;
    bench->stop = stop;
    bench->close = close_bench;
    bench->to_dut.fragment = FRAME_DF;
    bench_init(bench);
    wall->quit = eventfd(0, EFD_CLOEXEC);
    (void)setsockopt(wall->in, SOL_SOCKET, SO_RCVBUF, &size, sizeof size); /* the kernel limits it */
    if (wall->quit == -1 || setsockopt(wall->in, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == -1 ||
        fcntl(bench->events->fd, F_SETFL, O_NONBLOCK) == -1)
        bench_fail("preparing the tester's sockets", errno);
    if ((error = pthread_create(&wall->thread, NULL, run, wall)) != 0)
        bench_fail("starting the tester's thread", error);
    wall->running = true;
    return bench;
}
