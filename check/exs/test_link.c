/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_link.c - the link that carries the packets of a connection (EXS_LINK): shared memory if both ends allow
 * it and can share memory, otherwise the TCP connection if both ends allow that, otherwise UDP. Each test
 * checks the device's counters, the reason that EXS_DEBUG logs, and that bytes arrive in both directions.
 */
#include "check/support/abstract.h"
#include "check/support/self.h"
#include "check/support/processes.h"
#include "check/support/support.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "core/base/settings.h"
#include "soft/cm/cm.h"
#include "soft/link/shm.h"

enum { MANY = 150, BYTES = 300000, STUCK = 8 << 20 };

static FILE *log_lines; /* replaces standard error */
static struct soft_cm_counters before;

/* Replaces the C library's function for the library. A call that succeeds may leave any value in errno, so the
 * library must not use that value as a reason for anything. */
int getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    int result = (int)syscall(SYS_getpeername, fd, address, length);

    if (result == 0)
        errno = EINPROGRESS;
    return result;
}

static void use(const char *link)
{
    must(link != NULL ? setenv("EXS_LINK", link, 1) : unsetenv("EXS_LINK"));
    settings_read(NULL);
}

static void begin(const char *link)
{
    must(setenv("EXS_DEBUG", "1", 1));
    use(link);
    log_lines = tmpfile();
    ck_assert_ptr_nonnull(log_lines);
    must(dup2(fileno(log_lines), STDERR_FILENO));
    init_library();
    soft_query_cm_counters(&before);
}

/* Returns the number of lines of FILE that contain `what`. */
static int count_lines(FILE *file, const char *what)
{
    char line[512];
    int count = 0;

    rewind(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, what) != NULL;
    return count;
}

static int count_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    int count = count_lines(maps, "memfd:exs");

    fclose(maps);
    return count;
}

/* Checks the number of endpoints on each link since begin(), and that the log has one line for each. */
static void expect_ends(unsigned by_shm, unsigned by_tcp, unsigned by_udp)
{
    struct soft_cm_counters now;

    soft_query_cm_counters(&now);
    ck_assert_uint_eq(now.by_shm - before.by_shm, by_shm);
    ck_assert_uint_eq(now.by_tcp - before.by_tcp, by_tcp);
    ck_assert_uint_eq(now.by_udp - before.by_udp, by_udp);
    ck_assert_int_eq(count_lines(log_lines, "goes by shm because both ends are this host's"), (int)by_shm);
    ck_assert_int_eq(count_lines(log_lines, "goes by tcp because "), (int)by_tcp);
    ck_assert_int_eq(count_lines(log_lines, "goes by udp because "), (int)by_udp);
}

static void pass_both_ways(struct pair *pair)
{
    pass_bytes(pair->client_box, pair->client, pair->server_box, pair->server, BYTES, 1);
    pass_bytes(pair->server_box, pair->server, pair->client_box, pair->client, BYTES, 2);
}

/* ---- Links that EXS_LINK names ------------------------------------------------------------------------- */

static const struct asked {
    const char *link, *carried_by;
} asked[] = {{"udp", "udp"}, {"tcp", "tcp"}, {"shm", "shm"}, {"auto", "shm"}, {NULL, "shm"}};

static bool has_option(int fd, int option, int wanted)
{
    int value;
    socklen_t length = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 && value == wanted;
}

/* Returns the number of open IPv4 sockets of the given type, without listening ones. */
static int count_sockets(int wanted)
{
    int count = 0;

    for (int fd = 0; fd < 4096; fd++)
        count += has_option(fd, SO_DOMAIN, AF_INET) && has_option(fd, SO_TYPE, wanted) &&
                 has_option(fd, SO_ACCEPTCONN, 0);
    return count;
}

/* Each endpoint of a connection over TCP needs two descriptors: the socket's number, and one TCP socket. */
START_TEST(one_descriptor_by_tcp)
{
    struct inbox client, server;
    struct pair pair;
    int ends[3][2], before;

    begin("tcp");
    inbox_open(&client, 16);
    inbox_open(&server, 16);
    pair_open_on(&pair, AF_INET, SOCK_STREAM, &client, &server);
    ck_assert_int_eq(count_sockets(SOCK_STREAM), 2);
    before = count_fds();
    for (int i = 0; i < 3; i++) {
        connect_ends(pair.listener, SOCK_STREAM, &pair.address, &client, &server, &ends[i][0], &ends[i][1]);
        ck_assert_int_eq(count_sockets(SOCK_STREAM), 2 * (i + 2));
        ck_assert_int_eq(count_sockets(SOCK_DGRAM), 0);
    }
    ck_assert_int_eq(count_fds() - before, 3 * 4);
    for (int i = 0; i < 3; i++) {
        close_socket(&client, ends[i][0]);
        close_socket(&server, ends[i][1]);
    }
    pair_close(&pair);
    client.beside = server.beside = NULL;
    inbox_close(&client);
    inbox_close(&server);
}
END_TEST

/* Both ends of a connection and the listener use the congestion control algorithm that the environment names. */
START_TEST(congestion_control_by_name)
{
    struct pair pair;
    int count = 0;

    must(setenv("EXS_TCP_CONGESTION", "reno", 1)); /* every kernel has reno and allows it to every user */
    begin("tcp");
    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int fd = 0; fd < 4096; fd++) {
        char name[16] = "";
        socklen_t length = sizeof name;

        if (!has_option(fd, SO_DOMAIN, AF_INET) || !has_option(fd, SO_TYPE, SOCK_STREAM))
            continue;
        must(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length));
        ck_assert_str_eq(name, "reno");
        count++;
    }
    ck_assert_int_eq(count, 3);
    pass_both_ways(&pair);
    pair_close(&pair);
}
END_TEST

/* Returns the number of connected TCP sockets whose TCP_USER_TIMEOUT is the given time, in ms. */
static int count_outages(int milliseconds)
{
    int count = 0;

    for (int fd = 0; fd < 4096; fd++) {
        int value;
        socklen_t length = sizeof value;

        if (has_option(fd, SO_DOMAIN, AF_INET) && has_option(fd, SO_TYPE, SOCK_STREAM) &&
            has_option(fd, SO_ACCEPTCONN, 0) &&
            getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &length) == 0)
            count += value == milliseconds;
    }
    return count;
}

static void set_outage(int socket, int milliseconds)
{
    must(exs_setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds));
}

/* An application sets the longest outage (TCP_USER_TIMEOUT) before it connects, on a listener, or on a
 * connected socket. */
START_TEST(outage_by_option)
{
    struct address address;
    struct inbox box;
    int listener, server, client;

    begin("tcp");
    inbox_open(&box, 16);
    listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    connect_ends(listener, SOCK_STREAM, &address, &box, &box, &client, &server);
    ck_assert_int_eq(count_outages(20000), 2);
    set_outage(client, 60000);
    ck_assert_int_eq(count_outages(60000), 1);
    set_outage(client, 0);
    ck_assert_int_eq(count_outages(20000), 2);
    close_socket(&box, client);
    close_socket(&box, server);
    set_outage(listener, 3000);
    connect_ends(listener, SOCK_STREAM, &address, &box, &box, &client, &server);
    ck_assert_int_eq(count_outages(3000), 1);
    ck_assert_int_eq(count_outages(20000), 1);
    close_socket(&box, client);
    close_socket(&box, server);
    must(client = exs_socket(PF_INET, SOCK_STREAM, 0));
    set_outage(client, 5000);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    exs_acceptaddr_t wanted = {.exs_addr = NULL};
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    server = take_good(&box, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    take_good(&box, EXS_EVT_CONNECT, client);
    ck_assert_int_eq(count_outages(5000), 1);
    ck_assert_int_eq(count_outages(3000), 1);
    close_socket(&box, client);
    close_socket(&box, server);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

/* A connection over UDP keeps its UDP sockets while other connections use TCP. After it has closed, the next
 * connection over TCP closes them. */
START_TEST(sockets_of_udp_beside_tcp)
{
    struct inbox client, server;
    struct pair pairs[3];

    begin("udp");
    inbox_open(&client, 16);
    inbox_open(&server, 16);
    pair_open_on(&pairs[0], AF_INET, SOCK_STREAM, &client, &server);
    use("tcp");
    pair_open_on(&pairs[1], AF_INET, SOCK_STREAM, &client, &server);
    ck_assert_int_eq(count_sockets(SOCK_DGRAM), 2);
    pass_both_ways(&pairs[0]);
    pair_close(&pairs[0]);
    pair_open_on(&pairs[2], AF_INET, SOCK_STREAM, &client, &server);
    ck_assert_int_eq(count_sockets(SOCK_DGRAM), 0);
    use("udp");
    pair_open_on(&pairs[0], AF_INET, SOCK_STREAM, &client, &server);
    for (int i = 0; i < 3; i++)
        pass_both_ways(&pairs[i]);
    for (int i = 0; i < 3; i++)
        pair_close(&pairs[i]);
    client.beside = server.beside = NULL;
    inbox_close(&client);
    inbox_close(&server);
}
END_TEST

START_TEST(what_is_asked_for_is_used)
{
    const char *link = asked[_i].carried_by;
    bool shm = strcmp(link, "shm") == 0, tcp = strcmp(link, "tcp") == 0, udp = strcmp(link, "udp") == 0;
    struct pair pair;
    char line[80];

    begin(asked[_i].link);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    pass_both_ways(&pair);
    expect_ends(2 * shm, 2 * tcp, 2 * udp);
    ck_assert_int_eq(count_maps(), 2 * shm);
    ck_assert_int_eq(count_lines(log_lines, "because EXS_LINK says so\n"), 2 * !shm);
    snprintf(line, sizeof line, "connection to 127.0.0.1 port %d goes by %s", port_of(&pair.address), link);
    ck_assert_int_eq(count_lines(log_lines, line), 1);
    pair_close(&pair);
    ck_assert_int_eq(count_maps(), 0);
}
END_TEST

/* Two connections of the same queues use different links, one opened after the other. */
START_TEST(one_link_after_the_other)
{
    const char *first = _i == 0 ? "shm" : "udp", *second = _i == 0 ? "udp" : "shm";
    struct inbox client, server;
    struct pair pairs[2];

    begin(first);
    inbox_open(&client, 16);
    inbox_open(&server, 16);
    pair_open_on(&pairs[0], AF_INET, SOCK_STREAM, &client, &server);
    use(second);
    pair_open_on(&pairs[1], AF_INET, SOCK_STREAM, &client, &server);
    expect_ends(2, 0, 2);
    for (int i = 0; i < 2; i++)
        pass_both_ways(&pairs[i]);
    for (int i = 0; i < 2; i++)
        pair_close(&pairs[i]);
    client.beside = server.beside = NULL;
    inbox_close(&client);
    inbox_close(&server);
}
END_TEST

/* ---- Where memory cannot be shared --------------------------------------------------------------------- */

/* The listener starts with one value of EXS_LINK and the client with another. They do not share memory, for the
 * reason `because`, and TCP carries the packets. */
static void connect_by_tcp(const char *listener_has, const char *client_has, const char *because)
{
    struct address address;
    struct inbox box;
    int listener, client, server;

    begin(listener_has);
    listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    use(client_has);
    inbox_open(&box, 16);
    connect_ends(listener, SOCK_STREAM, &address, &box, &box, &client, &server);
    expect_ends(0, 2, 0);
    ck_assert_int_ge(count_lines(log_lines, because), 1);
    pass_bytes(&box, client, &box, server, BYTES, 1);
    pass_bytes(&box, server, &box, client, BYTES, 2);
    close_socket(&box, client);
    close_socket(&box, server);
    close_socket(&box, listener);
    inbox_close(&box);
}

START_TEST(the_listener_wants_none)
{
    connect_by_tcp("tcp", "auto", "no process of this user listens there on this host");
}
END_TEST

START_TEST(no_memory_can_be_made)
{
    struct rlimit limit;

    must(getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = sizeof(struct shm_area) - 1;
    must(setrlimit(RLIMIT_FSIZE, &limit));
    connect_by_tcp("shm", "shm", "no memory can be offered: File too large");
}
END_TEST

/* Many connections at once over shared memory: more than one pass polls. */
START_TEST(many_on_one_queue)
{
    static exs_acceptaddr_t wanted[MANY];
    struct soft_cm_counters now;
    struct address address;
    struct rlimit limit;
    struct inbox box;
    int client[MANY], server[MANY], listener;

    must(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &limit));
    begin("shm");
    inbox_open(&box, 4 * MANY);
    listener = open_listener(AF_INET, SOCK_STREAM, MANY, &address);
    must(exs_accept(listener, wanted, MANY, 0, box.queue));
    for (int i = 0; i < MANY; i++) {
        must(client[i] = exs_socket(PF_INET, SOCK_STREAM, 0));
        must(exs_connect(client[i], SA(&address), address.length, 0, NULL, box.queue, NULL));
    }
    for (int i = 0; i < MANY; i++) {
        take_good(&box, EXS_EVT_CONNECT, client[i]);
        server[i] = take_good(&box, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    }
    soft_query_cm_counters(&now);
    ck_assert_uint_eq(now.by_shm - before.by_shm, 2 * MANY);
    for (int i = 0; i < MANY; i++) /* any client with any server socket: all use one queue */
        must(exs_send(client[i], &i, sizeof i, 0, box.queue, NULL, NULL));
    for (int i = 0; i < MANY; i++) {
        static int got[MANY];

        must(exs_recv(server[i], &got[i], sizeof got[i], MSG_WAITALL, box.queue, NULL, NULL));
        take_good(&box, EXS_EVT_RECV, server[i]);
        take_good(&box, EXS_EVT_SEND, client[i]);
    }
    for (int i = 0; i < MANY; i++) {
        close_socket(&box, client[i]);
        close_socket(&box, server[i]);
    }
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

/* ---- Other processes ----------------------------------------------------------------------------------- */

static const struct client {
    uid_t user; /* or 0: that of the test */
    const char *link;
} same_user = {0, "shm"}, other_user = {65534, "shm"};

/* Connects, and receives STUCK bytes. */
static void client(int fd, void *arg)
{
    const struct client *self = arg;
    struct address address;
    char *buffer = new_buffer(STUCK), ready;
    int sock;

    use(self->link);
    if (self->user != 0)
        must(setuid(self->user));
    init_library();
    hear(fd, &address, sizeof address);
    must(sock = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_blocking_connect(sock, SA(&address), address.length));
    hear(fd, &ready, 1);
    ck_assert_int_eq(exs_blocking_recv(sock, buffer, STUCK, MSG_WAITALL, NULL), STUCK);
    pattern_check(buffer, STUCK, 5, 0);
    free(buffer);
    must(exs_blocking_close(sock));
    tell(fd, "d", 1);
}

static int accept_child(struct child *child, int listener, const struct address *address, struct inbox *box)
{
    exs_acceptaddr_t wanted = {.exs_addr = NULL};

    must(exs_accept(listener, &wanted, 1, 0, box->queue));
    tell(child->fd, address, sizeof *address);
    take_good(box, EXS_EVT_ACCEPT, listener);
    return wanted.exs_socket;
}

/* Sends to a client in another process. `by_tcp` and `by_udp` are the numbers of endpoints in this process that
 * use each link, `because` the logged reason. */
static void send_to(const char *link, const struct client *other, unsigned by_tcp, unsigned by_udp,
                    const char *because)
{
    struct child child;
    struct address address;
    struct inbox box;
    char *buffer = new_buffer(STUCK), done;
    int listener, server;

    child_start(&child, client, (void *)(uintptr_t)other);
    begin(link);
    inbox_open(&box, 16);
    listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    server = accept_child(&child, listener, &address, &box);
    expect_ends(0, by_tcp, by_udp);
    ck_assert_int_eq(count_lines(log_lines, because), 1);
    pattern_fill(buffer, STUCK, 5, 0);
    must(exs_send(server, buffer, STUCK, 0, box.queue, NULL, NULL));
    tell(child.fd, "g", 1);
    take_good(&box, EXS_EVT_SEND, server);
    hear(child.fd, &done, 1);
    close_socket(&box, server);
    close_socket(&box, listener);
    inbox_close(&box);
    child_join(&child);
    free(buffer);
}

START_TEST(another_user_shares_nothing)
{
    if (geteuid() != 0)
        return; /* only root can become another user */
    send_to("shm", &other_user, 1, 0, "the peer offers no memory");
}
END_TEST

static const struct differing {
    const char *own;
    struct client other;
    unsigned by_tcp, by_udp;
    const char *because;
} differing[] = {
    {"auto", {0, "tcp"}, 1, 0, "goes by tcp because the peer offers no memory"},
    {"auto", {0, "udp"}, 0, 1, "goes by udp because the peer offers no packets by TCP"},
    {"tcp", {0, "udp"}, 0, 1, "goes by udp because the peer offers no packets by TCP"},
    {"tcp", {0, "auto"}, 1, 0, "goes by tcp because EXS_LINK says so"},
    {"udp", {0, "auto"}, 0, 1, "goes by udp because EXS_LINK says so"},
};

/* The ends name different links: the connection uses the best one that both allow. */
START_TEST(ends_ask_for_different_links)
{
    const struct differing *row = &differing[_i];

    send_to(row->own, &row->other, row->by_tcp, row->by_udp, row->because);
}
END_TEST

/* Fills the backlog of the listener's abstract socket, to which any user can connect. */
static void stranger(int fd, void *arg)
{
    struct address address;
    char name[40], go;

    (void)arg;
    must(setuid(65534));
    hear(fd, &address, sizeof address);
    snprintf(name, sizeof name, "exs/0/127.0.0.1-%d", port_of(&address));
    while (abstract_visit(name) != -1)
        ;
    tell(fd, "f", 1);
    hear(fd, &go, 1);
}

/* Another user has filled the abstract socket's backlog. Connections use shared memory all the same, because a
 * client tries the socket in its user's directory first. */
START_TEST(strangers_take_all_places)
{
    struct child child;
    struct address address;
    struct inbox box;
    int listener, client, server;
    char full;

    if (geteuid() != 0)
        return;
    child_start(&child, stranger, NULL);
    begin("auto");
    inbox_open(&box, 16);
    listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    tell(child.fd, &address, sizeof address);
    hear(child.fd, &full, 1);
    connect_ends(listener, SOCK_STREAM, &address, &box, &box, &client, &server);
    pass_bytes(&box, client, &box, server, BYTES, 1);
    close_socket(&box, client);
    close_socket(&box, server);
    expect_ends(2, 0, 0);
    tell(child.fd, "g", 1);
    child_join(&child);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

/* A peer that is stopped with a full ring costs no CPU time and does not delay other connections. When it
 * continues, so does its connection. */
START_TEST(a_stopped_peer_is_waited_for)
{
    struct child child;
    struct address address;
    struct inbox box;
    struct pair others;
    char *buffer = new_buffer(STUCK), done;
    int listener, server;

    child_start(&child, client, (void *)(uintptr_t)&same_user);
    begin("shm");
    inbox_open(&box, 64);
    listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    server = accept_child(&child, listener, &address, &box);
    expect_ends(1, 0, 0);
    process_stop(child.pid);
    pattern_fill(buffer, STUCK, 5, 0);
    must(exs_send(server, buffer, STUCK, 0, box.queue, NULL, NULL));
    pair_open_on(&others, AF_INET, SOCK_STREAM, &box, &box);
    pass_both_ways(&others);
    double cpu = seconds_of_cpu();
    inbox_quiet(&box, 500);
    ck_assert_double_lt(seconds_of_cpu() - cpu, 0.25); /* of 0.5 s: the thread sleeps */
    must(kill(child.pid, SIGCONT));
    tell(child.fd, "g", 1);
    take_good(&box, EXS_EVT_SEND, server);
    hear(child.fd, &done, 1);
    pass_both_ways(&others);
    close_socket(&box, server);
    close_socket(&box, listener);
    pair_close(&others);
    inbox_close(&box);
    child_join(&child);
    free(buffer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("link");
    TCase *here = add_bare_case(suite, "here", 30), *others = add_bare_case(suite, "others", 30);

    if (on_rdma())
        return 0; /* a NIC has only its own link */
    tcase_add_loop_test(here, what_is_asked_for_is_used, 0, COUNT(asked));
    tcase_add_test(here, one_descriptor_by_tcp);
    tcase_add_test(here, congestion_control_by_name);
    tcase_add_test(here, outage_by_option);
    tcase_add_test(here, sockets_of_udp_beside_tcp);
    tcase_add_loop_test(here, one_link_after_the_other, 0, 2);
    tcase_add_test(here, the_listener_wants_none);
    tcase_add_test(here, no_memory_can_be_made);
    tcase_add_test(here, many_on_one_queue);
    tcase_add_test(others, another_user_shares_nothing);
    tcase_add_loop_test(others, ends_ask_for_different_links, 0, COUNT(differing));
    tcase_add_test(others, strangers_take_all_places);
    tcase_add_test(others, a_stopped_peer_is_waited_for);
    return run_suite(suite);
}
