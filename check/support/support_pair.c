/* SPDX-License-Identifier: BSD-2-Clause */
/* support_pair.c - see support.h: waiting for events, and two connected sockets in one process. */
#include "support.h"

#include <arpa/inet.h>
#include <poll.h>

/* ---- Addresses ----------------------------------------------------------------------- */

/* The kernel's RDMA does not work on lo, so the addresses for it come from the environment. */
static const char *test_address(const char *variable, const char *otherwise)
{
    const char *given = getenv(variable);

    return given ? given : otherwise;
}

struct address loopback(int family, int port)
{
    struct address a = {.length = sizeof(struct sockaddr_in)};

    a.storage.ss_family = (sa_family_t)family;
    if (family == AF_INET6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)&a.storage;
        ck_assert_int_eq(inet_pton(AF_INET6, test_address("EXS_TEST_ADDR6", "::1"), &six->sin6_addr), 1);
        six->sin6_port = htons((uint16_t)port);
        a.length = sizeof *six;
    } else {
        struct sockaddr_in *four = (struct sockaddr_in *)&a.storage;
        ck_assert_int_eq(inet_pton(AF_INET, test_address("EXS_TEST_ADDR", "127.0.0.1"), &four->sin_addr), 1);
        four->sin_port = htons((uint16_t)port);
    }
    return a;
}

int port_of(const struct address *address)
{
    if (address->storage.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address->storage)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&address->storage)->sin_port);
}

static int tcp_bound(struct address *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd);
    *address = loopback(AF_INET, 0);
    must(bind(fd, SA(address), address->length));
    must(getsockname(fd, SA(address), &address->length));
    return fd;
}

struct address refusing_address(int *keep)
{
    struct address address;

    *keep = tcp_bound(&address);
    return address;
}

int tcp_listener(struct address *address)
{
    int fd = tcp_bound(address);

    must(listen(fd, 128));
    return fd;
}

bool on_rdma(void)
{
    const char *device = getenv("EXS_DEVICE");

    return device && strcmp(device, "rdma") == 0;
}

bool on_shm(void)
{
    const char *link = getenv("EXS_LINK");

    return !on_rdma() && !(link && (strcmp(link, "udp") == 0 || strcmp(link, "tcp") == 0));
}

/* With TCP the connection is not accepted and its request not read; with RDMA no host has the address. Under
 * exs-soft-run connections use TCP again. */
struct address deaf_address(int *keep)
{
    const char *preload = getenv("LD_PRELOAD");
    struct address address;

    *keep = tcp_listener(&address);
    if (on_rdma() && !(preload && strstr(preload, "libexs-soft-run")))
        ((struct sockaddr_in *)&address.storage)->sin_addr.s_addr ^= htonl(0xF0);
    return address;
}

/* ---- Events -------------------------------------------------------------------------- */

void inbox_open(struct inbox *box, int depth)
{
    *box = (struct inbox){.queue = exs_qcreate(depth)};
    ck_assert_msg(box->queue != EXS_QHANDLE_INVALID && box->queue, "exs_qcreate: %s", strerror(errno));
}

void inbox_close(struct inbox *box)
{
    inbox_quiet(box, 0);
    must(exs_qdelete(box->queue));
    free(box->kept);
    *box = (struct inbox){.queue = NULL};
}

static void inbox_drain(struct inbox *box)
{
    int got, batch = 64;

    do {
        if (box->count + batch > box->room) {
            box->room = 2 * box->room + batch;
            box->kept = realloc(box->kept, (size_t)box->room * sizeof *box->kept);
            ck_assert_ptr_nonnull(box->kept);
        }
        got = exs_qdequeue(box->queue, box->kept + box->count, batch, &(struct timeval){0, 0});
        ck_assert_msg(got >= 0 && got <= batch, "exs_qdequeue: %d, %s", got, strerror(errno));
        box->count += got;
    } while (got == batch);
}

/* Waits until this inbox or the one in `beside` has work, and does it. */
void inbox_pump(struct inbox *box, int wait_ms)
{
    struct pollfd wait[2] = {{.fd = exs_qfd(box->queue), .events = POLLIN}, {.fd = -1, .events = POLLIN}};

    if (box->beside)
        wait[1].fd = exs_qfd(box->beside->queue);
    int ready = poll(wait, 2, wait_ms);
    ck_assert_msg(ready >= 0 || errno == EINTR, "poll: %s", strerror(errno));
    inbox_drain(box);
    if (box->beside)
        inbox_drain(box->beside);
}

static bool inbox_find(struct inbox *box, int type, int socket, exs_event_t *event)
{
    for (int i = 0; i < box->count; i++) {
        if (box->kept[i].exs_evt_type != type || (socket >= 0 && box->kept[i].exs_evt_socket != socket))
            continue;
        *event = box->kept[i];
        memmove(box->kept + i, box->kept + i + 1, (size_t)(--box->count - i) * sizeof *box->kept);
        return true;
    }
    return false;
}

exs_event_t inbox_take(struct inbox *box, int type, int socket)
{
    double end = seconds_now() + WAIT_MS / 1e3;
    exs_event_t event;

    while (!inbox_find(box, type, socket, &event)) {
        int left = (int)((end - seconds_now()) * 1e3);
        ck_assert_msg(left > 0, "no %s of socket %d came; %d other events did, the first a %s with errno %s",
                      exs_strevent(type), socket, box->count,
                      box->count ? exs_strevent(box->kept[0].exs_evt_type) : "-",
                      box->count ? strerrorname_np(box->kept[0].exs_evt_errno) : "-");
        inbox_pump(box, left);
    }
    return event;
}

exs_event_t take_good(struct inbox *box, int type, int socket)
{
    return take_failed(box, type, socket, 0);
}

exs_event_t take_failed(struct inbox *box, int type, int socket, int error)
{
    exs_event_t event = inbox_take(box, type, socket);

    ck_assert_msg(event.exs_evt_errno == error, "%s of socket %d: errno is %s, want %s", exs_strevent(type),
                  event.exs_evt_socket, strerrorname_np(event.exs_evt_errno), strerrorname_np(error));
    return event;
}

void inbox_quiet(struct inbox *box, int ms)
{
    double end = seconds_now() + ms / 1e3;
    int left;

    do {
        left = (int)((end - seconds_now()) * 1e3);
        inbox_pump(box, left > 0 ? left : 0);
        ck_assert_msg(box->count == 0, "nobody asked for a %s of socket %d with errno %s",
                      exs_strevent(box->kept[0].exs_evt_type), box->kept[0].exs_evt_socket,
                      strerrorname_np(box->kept[0].exs_evt_errno));
    } while (left > 0);
}

/* ---- Connections --------------------------------------------------------------------- */

const struct kind kinds[4] = {
    {AF_INET, SOCK_STREAM},
    {AF_INET, SOCK_SEQPACKET},
    {AF_INET6, SOCK_STREAM},
    {AF_INET6, SOCK_SEQPACKET},
};

int open_listener(int family, int type, int backlog, struct address *address)
{
    int listener = exs_socket(family, type, 0);

    must(listener);
    *address = loopback(family, 0);
    must(exs_bind(listener, SA(address), address->length));
    must(exs_listen(listener, backlog));
    address->length = sizeof address->storage;
    must(exs_getsockname(listener, SA(address), &address->length));
    ck_assert_int_ne(port_of(address), 0);
    return listener;
}

void connect_ends(int listener, int type, const struct address *to, struct inbox *client_box,
                  struct inbox *server_box, int *client, int *server)
{
    exs_acceptaddr_t wanted = {.exs_ahandle = &wanted};

    must(*client = exs_socket(to->storage.ss_family, type, 0));
    must(exs_accept(listener, &wanted, 1, 0, server_box->queue));
    must(exs_connect(*client, SA(to), to->length, 0, NULL, client_box->queue, client));
    exs_event_t event = take_good(client_box, EXS_EVT_CONNECT, *client);
    ck_assert_ptr_eq(event.exs_evt_ahandle, client);
    event = take_good(server_box, EXS_EVT_ACCEPT, listener);
    ck_assert_ptr_eq(event.exs_evt_ahandle, &wanted);
    *server = event.exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    ck_assert_int_ge(*server, 0);
    ck_assert_int_eq(*server, wanted.exs_socket);
}

void close_socket(struct inbox *box, int socket)
{
    int mark;

    must(exs_close(socket, 0, box->queue, &mark));
    ck_assert_ptr_eq(take_good(box, EXS_EVT_CLOSE, socket).exs_evt_ahandle, &mark);
}

void pair_open_on(struct pair *pair, int family, int type, struct inbox *client, struct inbox *server)
{
    *pair = (struct pair){.client_box = client, .server_box = server};
    if (client != server) {
        client->beside = server;
        server->beside = client;
    }
    pair->listener = open_listener(family, type, 8, &pair->address);
    connect_ends(pair->listener, type, &pair->address, client, server, &pair->client, &pair->server);
}

void pair_open(struct pair *pair, int family, int type)
{
    struct inbox client, server;

    inbox_open(&client, 64);
    inbox_open(&server, 64);
    pair_open_on(pair, family, type, &client, &server);
    pair->own[0] = client;
    pair->own[1] = server;
    pair->client_box = &pair->own[0];
    pair->server_box = &pair->own[1];
    pair->client_box->beside = pair->server_box;
    pair->server_box->beside = pair->client_box;
}

void pair_open_kind(struct pair *pair, int kind)
{
    pair_open(pair, kinds[kind].family, kinds[kind].type);
}

void pair_close(struct pair *pair)
{
    close_socket(pair->client_box, pair->client);
    close_socket(pair->server_box, pair->server);
    pair_close_rest(pair);
}

void pair_close_rest(struct pair *pair)
{
    close_socket(pair->server_box, pair->listener);
    inbox_quiet(pair->client_box, 0);
    if (pair->client_box != &pair->own[0])
        return;
    pair->own[0].beside = pair->own[1].beside = NULL;
    inbox_close(&pair->own[0]);
    inbox_close(&pair->own[1]);
}

void child_accepts(int fd, void *arg)
{
    struct address address;

    (void)arg;
    init_library();
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    tell(fd, &address, sizeof address);
    must(exs_blocking_accept(listener, NULL, NULL));
    tell(fd, "", 1);
    hear(fd, &address, 1);
}

static void *connect_blocking(void *arg)
{
    struct pair *pair = arg;

    must(exs_blocking_connect(pair->client, SA(&pair->address), pair->address.length));
    return NULL;
}

void pair_open_blocking(struct pair *pair, int family, int type)
{
    *pair = (struct pair){.listener = -1};
    pair->listener = open_listener(family, type, 8, &pair->address);
    must(pair->client = exs_socket(family, type, 0));
    pthread_t thread = thread_start(connect_blocking, pair);
    must(pair->server = exs_blocking_accept(pair->listener, NULL, NULL));
    thread_join(thread);
}

void pair_close_blocking(struct pair *pair)
{
    must(exs_blocking_close(pair->client));
    must(exs_blocking_close(pair->server));
    must(exs_blocking_close(pair->listener));
}

void pass_bytes(struct inbox *from_box, int from, struct inbox *to_box, int to, size_t length, uint64_t seed)
{
    char *out = new_buffer(length), *in = new_buffer(length);

    pattern_fill(out, length, seed, 0);
    must(exs_recv(to, in, length, MSG_WAITALL, to_box->queue, in, NULL));
    must(exs_send(from, out, length, 0, from_box->queue, out, NULL));
    exs_event_t sent = take_good(from_box, EXS_EVT_SEND, from);
    ck_assert_ptr_eq(sent.exs_evt_ahandle, out);
    ck_assert_uint_eq(sent.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    exs_event_t received = take_good(to_box, EXS_EVT_RECV, to);
    ck_assert_ptr_eq(received.exs_evt_ahandle, in);
    ck_assert_uint_eq(received.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    pattern_check(in, length, seed, 0);
    free(out);
    free(in);
}

void owe_events(struct pair *pair, exs_qhandle_t queue, int count)
{
    static char bytes[1000];

    ck_assert_int_le(count, COUNT(bytes));
    for (int i = 0; i < count; i++)
        must(exs_recv(pair->server, bytes + i, 1, 0, queue, NULL, NULL));
    must(exs_send(pair->client, bytes, (size_t)count, 0, pair->client_box->queue, NULL, NULL));
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
}
