/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_devices.c - sockets on two devices: a simulated RDMA device and the software device.
 *
 * This program's rdma_device takes the place of the library's.
 */
#include "check/support/support.h"

#include <arpa/inet.h>
#include "core/api/core.h"
#include "core/device/device.h"
#include "core/sock/sock.h"

/* bind_error: errno that binding fails with, or 0; resolves: calls of resolve_addr. */
static int bind_error, resolves;

static struct rdma_event_channel *create_event_channel(void)
{
    return soft_device.create_event_channel();
}

static void destroy_event_channel(struct rdma_event_channel *channel)
{
    soft_device.destroy_event_channel(channel);
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                     enum rdma_port_space ps)
{
    return soft_device.create_id(channel, id, context, ps);
}

static int destroy_id(struct rdma_cm_id *id)
{
    return soft_device.destroy_id(id);
}

static int get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    return soft_device.get_cm_event(channel, event);
}

/* The simulated device has its own ports, like a device that does not use the kernel's TCP ports. */
static int bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    errno = bind_error;
    memcpy(&id->route.addr.src_storage, addr, sizeof(struct sockaddr_in));
    return bind_error != 0 ? -1 : 0;
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
    (void)id, (void)src, (void)dst, (void)timeout_ms;
    resolves++;
    errno = ENODEV;
    return -1;
}

static int listen_id(struct rdma_cm_id *id, int backlog)
{
    (void)id, (void)backlog;
    return 0;
}

static struct ibv_device **get_device_list(int *num_devices)
{
    static struct ibv_device devices[] = {{.name = "mlx5_0"}, {.name = "mlx5_1"}};
    static struct ibv_device *list[] = {&devices[0], &devices[1], NULL};

    *num_devices = 2;
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    ck_assert_str_eq(list[0]->name, "mlx5_0");
}

const struct device rdma_device = {
    .name = "rdma",
    .get_device_list = get_device_list,
    .free_device_list = free_device_list,
    .create_event_channel = create_event_channel,
    .destroy_event_channel = destroy_event_channel,
    .create_id = create_id,
    .destroy_id = destroy_id,
    .bind_addr = bind_addr,
    .resolve_addr = resolve_addr,
    .listen = listen_id,
    .get_cm_event = get_cm_event,
};

static void init_both(void)
{
    ck_assert_int_eq(setenv("EXS_DEVICE", "auto", 1), 0);
    init_library();
    bind_error = EADDRNOTAVAIL;
    resolves = 0;
}

static int new_socket(int family)
{
    int sock = exs_socket(family, SOCK_STREAM, 0);

    must(sock);
    return sock;
}

static void listens_on(int sock, const char *devices)
{
    char name[64];

    must(exs_getdevice(sock, name, sizeof name));
    ck_assert_str_eq(name, devices);
}

static int bound_listener(struct address *address)
{
    int sock = new_socket(AF_INET);

    *address = (struct address){.length = sizeof(struct sockaddr_in)};
    *(struct sockaddr_in *)&address->storage =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(exs_bind(sock, SA(address), address->length));
    must(exs_listen(sock, 1));
    must(exs_getsockname(sock, SA(address), &address->length));
    return sock;
}

START_TEST(listener_where_the_address_is)
{
    struct address address;
    int both = new_socket(AF_INET), one = bound_listener(&address);

    listens_on(one, "soft");
    bind_error = 0;
    must(exs_listen(both, 1));
    listens_on(both, "rdma,soft");
    must(exs_blocking_close(one));
    must(exs_blocking_close(both));
}
END_TEST

/* Connects, and closes both ends. */
static void connect_to(int listener, const struct address *address, int sock)
{
    struct inbox box;
    exs_acceptaddr_t one = {0};

    inbox_open(&box, 4);
    must(exs_accept(listener, &one, 1, 0, box.queue));
    must(exs_connect(sock, SA(address), address->length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, sock);
    take_good(&box, EXS_EVT_ACCEPT, listener);
    close_socket(&box, sock);
    close_socket(&box, one.exs_socket);
    inbox_close(&box);
}

/* A socket that is bound to an address connects from that address or fails. */
START_TEST(bound_socket_connects_where_it_is_bound)
{
    struct address address;
    int listener = bound_listener(&address), sock = new_socket(AF_INET);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    must(exs_bind(sock, (struct sockaddr *)&here, sizeof here));
    connect_to(listener, &address, sock);
    ck_assert_int_eq(resolves, 0);
    connect_to(listener, &address, new_socket(AF_INET));
    ck_assert_int_eq(resolves, 1);
    must(exs_blocking_close(listener));
}
END_TEST

/* After a failed connect a socket can be bound again, on every device. */
START_TEST(bound_again_after_a_failure)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int keep, sock = new_socket(AF_INET);
    struct address nobody = refusing_address(&keep);

    bind_error = 0;
    for (int i = 0; i < 3; i++) {
        must(exs_bind(sock, (struct sockaddr *)&here, sizeof here));
        must_fail(exs_blocking_connect(sock, SA(&nobody), nobody.length), ECONNREFUSED);
    }
    must(exs_blocking_close(sock));
    close(keep);
}
END_TEST

static const int shortages[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS};

/* A device has the address but lacks a resource: the bind fails, instead of binding on the other device alone. The
 * socket can be bound again, on both. */
START_TEST(bound_again_after_a_shortage)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int sock = new_socket(AF_INET);

    bind_error = shortages[_i];
    must_fail(exs_bind(sock, (struct sockaddr *)&here, sizeof here), shortages[_i]);
    bind_error = 0;
    must(exs_bind(sock, (struct sockaddr *)&here, sizeof here));
    must(exs_listen(sock, 1));
    listens_on(sock, "rdma,soft");
    must(exs_blocking_close(sock));
}
END_TEST

/* If a device reports an IPv4 address for an IPv6 socket, the application gets it as an IPv4-mapped IPv6 address. */
START_TEST(addresses_are_of_the_sockets_family)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0xC0000201)};
    struct sockaddr_in6 in6;
    socklen_t length = sizeof in6;
    char text[INET6_ADDRSTRLEN];

    xs_copy_address(AF_INET6, (struct sockaddr *)&in, (struct sockaddr *)&in6, &length);
    ck_assert_uint_eq(length, sizeof in6);
    ck_assert_int_eq(in6.sin6_family, AF_INET6);
    ck_assert_int_eq(in6.sin6_port, in.sin_port);
    ck_assert_str_eq(inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text), "::ffff:192.0.2.1");
    length = sizeof in6;
    xs_copy_address(AF_INET, (struct sockaddr *)&in, (struct sockaddr *)&in6, &length);
    ck_assert_uint_eq(length, sizeof in);
    ck_assert_mem_eq(&in6, &in, sizeof in);
}
END_TEST

/* An unknown value is refused instead of ignored; after it was corrected, exs_init works. */
START_TEST(links_of_no_name_are_refused)
{
    static const char *const wrong[] = {"TCP", "SHM", "shm ", "shm-or-whatever-there-is"};
    static const char *const right[] = {"auto", "shm", "tcp", "udp", ""};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(setenv("EXS_LINK", wrong[i], 1), 0);
        ck_assert_int_eq(exs_init(EXS_VERSION), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
    ck_assert_int_eq(setenv("EXS_LINK", right[_i], 1), 0);
    init_library();
}
END_TEST

START_TEST(roce_is_a_word_that_is_known)
{
    static const char *const wrong[] = {"yes", "ON", "on ", "automatically"};
    static const char *const right[] = {"off", "on", "auto", "only", ""};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(setenv("EXS_ROCE", wrong[i], 1), 0);
        ck_assert_int_eq(exs_init(EXS_VERSION), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
    ck_assert_int_eq(setenv("EXS_ROCE", right[_i], 1), 0);
    init_library();
}
END_TEST

START_TEST(switches_are_known)
{
    static const struct {
        const char *name, *wrong, *right;
    } rows[] = {{"EXS_CHECK", "abrt", "abort"}, {"EXS_CHECK", "aborted", "1"}, {"EXS_CHECK", "yes", ""},
                {"EXS_MAP", "2", "1"},          {"EXS_MAP", "abort", "0"},     {"EXS_IMMEDIATE", "no", "0"}};

    must(setenv(rows[_i].name, rows[_i].wrong, 1));
    must_fail(exs_init(EXS_VERSION), EINVAL);
    must(setenv(rows[_i].name, rows[_i].right, 1));
    init_library();
}
END_TEST

/* Stores what exs_init writes to standard error with this EXS_DEVICE, and checks its result. */
static void init_says(const char *device, int error, char *text, size_t size)
{
    FILE *said = tmpfile();
    int keep = dup(STDERR_FILENO);

    ck_assert_ptr_nonnull(said);
    ck_assert_int_eq(setenv("EXS_DEVICE", device, 1), 0);
    ck_assert_int_eq(setenv("EXS_DEBUG", "1", 1), 0);
    must(keep);
    must(dup2(fileno(said), STDERR_FILENO));
    int result = exs_init(EXS_VERSION), why = errno;

    must(dup2(keep, STDERR_FILENO));
    close(keep);
    ck_assert_int_eq(result, error == 0 ? 0 : -1);
    ck_assert_int_eq(error == 0 ? 0 : why, error);
    rewind(said);
    text[fread(text, 1, size - 1, said)] = 0;
    fclose(said);
}

/* A name that no device has is refused, whatever its form, with one line that lists the existing names. */
START_TEST(unknown_names_are_refused)
{
    static const char *const names[] = {"mlx5_2", "mlx5", "mlx5_00", "soft1", "soft00", "Auto", "nothing"};
    char says[512], wanted[512];

    for (int i = 0; i < COUNT(names); i++) {
        init_says(names[i], ENODEV, says, sizeof says);
        snprintf(wanted, sizeof wanted,
                 "exs: EXS_DEVICE=%s is not a device: set it to auto, rdma, soft, or one of these names: "
                 "mlx5_0, mlx5_1, soft0\n",
                 names[i]);
        ck_assert_str_eq(says, wanted);
    }
}
END_TEST

START_TEST(known_names_are_taken)
{
    static const struct {
        const char *name, *listens;
    } known[] = {{"mlx5_0", "rdma"}, {"mlx5_1", "rdma"}, {"soft0", "soft"},    {"rdma", "rdma"},
                 {"soft", "soft"},   {"", "rdma,soft"},  {"auto", "rdma,soft"}};
    char says[512];

    init_says(known[_i].name, 0, says, sizeof says);
    ck_assert_str_eq(says, "");
    int sock = new_socket(AF_INET);

    must(exs_listen(sock, 1));
    listens_on(sock, known[_i].listens);
    must(exs_blocking_close(sock));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("two devices");
    TCase *links = add_bare_case(suite, "links", 20);
    TCase *names = add_bare_case(suite, "names", 20);
    TCase *both = add_bare_case(suite, "both", 20);

    tcase_add_checked_fixture(both, init_both, NULL);
    tcase_add_test(both, listener_where_the_address_is);
    tcase_add_test(both, bound_socket_connects_where_it_is_bound);
    tcase_add_test(both, bound_again_after_a_failure);
    tcase_add_loop_test(both, bound_again_after_a_shortage, 0, COUNT(shortages));
    tcase_add_test(both, addresses_are_of_the_sockets_family);
    tcase_add_test(names, unknown_names_are_refused);
    tcase_add_loop_test(names, known_names_are_taken, 0, 7);
    tcase_add_loop_test(links, links_of_no_name_are_refused, 0, 4);
    tcase_add_loop_test(links, switches_are_known, 0, 6);
    tcase_add_loop_test(links, roce_is_a_word_that_is_known, 0, 5);
    return run_suite(suite);
}
