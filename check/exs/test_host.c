/* SPDX-License-Identifier: BSD-2-Clause */
/* test_host.c - connecting by name: all addresses of the name are tried in order. Also the errors if there are none. */
#include <arpa/inet.h>
#include <limits.h>
#include <sys/resource.h>
#include "named.h"

/* ---- Connections ------------------------------------------------------------------------- */

static void made(struct inbox *box, int client, exs_acceptaddr_t *wanted, const struct address *to)
{
    struct address there = {.length = sizeof there.storage};
    exs_event_t event = take_good(box, EXS_EVT_CONNECT, client);

    ck_assert_ptr_eq(event.exs_evt_ahandle, &answer);
    take_good(box, EXS_EVT_ACCEPT, -1);
    must(exs_getpeername(client, SA(&there), &there.length));
    ck_assert_int_eq(port_of(&there), port_of(to));
    pass_bytes(box, client, box, wanted->exs_socket, 100, 1);
    close_socket(box, client);
    close_socket(box, wanted->exs_socket);
}

START_TEST(by_name)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted = {0};
    int family = kinds[_i].family, type = kinds[_i].type;
    int listener = open_listener(family, type, 4, &address), client = exs_socket(family, type, 0);

    inbox_open(&box, 8);
    name_leads_to(&address);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    connect_host(client, &box);
    made(&box, client, &wanted, &address);
    ck_assert_int_eq(family_asked, family);
    await(&freed);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

static void *connect_blocking(void *socket)
{
    must(exs_blocking_connect_host(*(int *)socket, "host", "service"));
    return NULL;
}

START_TEST(by_name_blocking)
{
    struct pair pair = {0};

    pair.listener = open_listener(kinds[_i].family, kinds[_i].type, 4, &pair.address);
    must(pair.client = exs_socket(kinds[_i].family, kinds[_i].type, 0));
    name_leads_to(&pair.address);
    pthread_t thread = thread_start(connect_blocking, &pair.client);
    must(pair.server = exs_blocking_accept(pair.listener, NULL, NULL));
    thread_join(thread);
    await(&freed);
    pair_close_blocking(&pair);
}
END_TEST

/* A numeric address is not looked up. An IPv6 socket accepts IPv4 addresses, too. */
START_TEST(by_number)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted = {0};
    char host[64], service[8];
    int from = _i == 1 ? PF_INET6 : PF_INET, client = exs_socket(_i == 0 ? PF_INET : PF_INET6, SOCK_STREAM, 0);
    int listener = open_listener(from, SOCK_STREAM, 4, &address);

    inbox_open(&box, 8);
    must(-getnameinfo(SA(&address), address.length, host, sizeof host, service, sizeof service,
                      NI_NUMERICHOST | NI_NUMERICSERV));
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    must(exs_connect_host(client, host, service, 0, NULL, box.queue, &answer));
    made(&box, client, &wanted, &address);
    ck_assert_int_eq(atomic_load(&asks), 0);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

/* Connects to addresses without a listener fail first. */
START_TEST(in_turn)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted = {0};
    int keep, listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address nobody = refusing_address(&keep);

    inbox_open(&box, 8);
    name_leads_to(&nobody);
    name_leads_to(&nobody);
    connect_host(client, &box);
    take_failed(&box, EXS_EVT_CONNECT, client, ECONNREFUSED);
    /* A connect by address does not use the name. */
    must(exs_connect(client, SA(&nobody), nobody.length, 0, NULL, box.queue, NULL));
    take_failed(&box, EXS_EVT_CONNECT, client, ECONNREFUSED);
    name_leads_to(&address);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    connect_host(client, &box);
    made(&box, client, &wanted, &address);
    close_socket(&box, listener);
    close(keep);
    inbox_close(&box);
}
END_TEST

/* Each address gets an equal part of the remaining time, so the first of two gets half if it does not respond. */
START_TEST(silent_first)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted = {0};
    struct timeval limit = {.tv_sec = 6};
    int keep, listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address deaf = deaf_address(&keep);

    inbox_open(&box, 8);
    name_leads_to(&deaf);
    name_leads_to(&address);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    double start = seconds_now();
    must(exs_connect_host(client, "host", "service", 0, &limit, box.queue, &answer));
    made(&box, client, &wanted, &address);
    double took = seconds_now() - start;
    ck_assert_msg(took > 2.9, "the first address had %.1f s of 6", took);
    close_socket(&box, listener);
    close(keep);
    inbox_close(&box);
}
END_TEST

/* With an infinite timeout, each address has an infinite timeout. */
START_TEST(endless)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted = {0};
    struct timeval endless = {.tv_sec = LONG_MAX};
    int keep, listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address nobody = refusing_address(&keep);

    inbox_open(&box, 8);
    name_leads_to(&nobody);
    name_leads_to(&address);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    must(exs_connect_host(client, "host", "7", 0, &endless, box.queue, &answer));
    made(&box, client, &wanted, &address);
    close_socket(&box, listener);
    close(keep);
    inbox_close(&box);
}
END_TEST

/* When the time is over, the call returns the errno of the last address. */
START_TEST(all_silent)
{
    struct timeval limit = {.tv_usec = 300000};
    int keep, client = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address deaf = deaf_address(&keep);

    name_leads_to(&deaf);
    name_leads_to(&deaf);
    double start = seconds_now();
    must_fail(exs_connect_host(client, "host", "service", EXS_BLOCK, &limit, NULL, NULL), ETIMEDOUT);
    double took = seconds_now() - start;
    ck_assert_msg(took > 0.28 && took < 0.3 + LATE_S, "a limit of 0.3 s took %.3f s", took);
    must(exs_blocking_close(client));
    close(keep);
}
END_TEST

/* A timeout of 0 expires at once, and is reported as for a connect by address. */
START_TEST(no_time)
{
    struct inbox box;
    struct timeval none = {0};
    char host[64], service[8];
    int keep, client = exs_socket(PF_INET, SOCK_STREAM, 0), waiting = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address deaf = deaf_address(&keep);

    inbox_open(&box, 4);
    must(-getnameinfo(SA(&deaf), deaf.length, host, sizeof host, service, sizeof service,
                      NI_NUMERICHOST | NI_NUMERICSERV));
    for (int i = 0; i < 2; i++) {
        must(exs_connect(client, SA(&deaf), deaf.length, 0, &none, box.queue, NULL));
        take_failed(&box, EXS_EVT_CONNECT, client, ETIMEDOUT);
        must(exs_connect_host(client, host, service, 0, &none, box.queue, &answer));
        exs_event_t event = take_failed(&box, EXS_EVT_CONNECT, client, ETIMEDOUT);
        ck_assert_ptr_eq(event.exs_evt_ahandle, &answer);
    }
    inbox_quiet(&box, QUIET_MS);
    must_fail(exs_connect_host(waiting, host, service, EXS_BLOCK, &none, NULL, NULL), ETIMEDOUT);
    close_socket(&box, client);
    must(exs_blocking_close(waiting));
    inbox_close(&box);
    close(keep);
}
END_TEST

/* ---- Errors -------------------------------------------------------------------------------- */

static const struct {
    int error, system_error, want;
} errors[] = {
    {EAI_NONAME, 0, ENXIO},        {EAI_NODATA, 0, ENXIO},       {EAI_ADDRFAMILY, 0, EAFNOSUPPORT},
    {EAI_FAMILY, 0, EAFNOSUPPORT}, {EAI_SERVICE, 0, EINVAL},     {EAI_AGAIN, 0, EAGAIN},
    {EAI_MEMORY, 0, ENOMEM},       {EAI_SYSTEM, EMFILE, EMFILE}, {EAI_SYSTEM, 0, EIO},
    {EAI_FAIL, ENOENT, EIO},
};

START_TEST(error_of_a_name)
{
    struct inbox box;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0), waiting = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&box, 4);
    answer.error = errors[_i].error;
    answer.system_error = errors[_i].system_error;
    connect_host(client, &box);
    take_failed(&box, EXS_EVT_CONNECT, client, errors[_i].want);
    must_fail(exs_blocking_connect_host(waiting, "host", "service"), errors[_i].want);
    close_socket(&box, client);
    close_socket(&box, waiting);
    inbox_close(&box);
}
END_TEST

/* The C library reports an unknown name if it has no descriptor for the lookup: the call returns EMFILE. */
START_TEST(shortage)
{
    struct inbox box;
    struct rlimit before, none;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&box, 4);
    answer.error = _i == 0 ? EAI_NONAME : EAI_AGAIN;
    answer.waits = true;
    connect_host(client, &box);
    must(getrlimit(RLIMIT_NOFILE, &before));
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
    must(setrlimit(RLIMIT_NOFILE, &none));
    must(sem_post(&go));
    take_failed(&box, EXS_EVT_CONNECT, client, EMFILE);
    must(setrlimit(RLIMIT_NOFILE, &before));
    close_socket(&box, client);
    inbox_close(&box);
}
END_TEST

static const struct {
    const char *host, *service;
    int want;
} refused_at_once[] = {
    {NULL, "1", EINVAL},
    {"host", NULL, EINVAL},
    {"host", "", EINVAL},
    {"host", "0", EINVAL},
    {"127.0.0.1", "0", EINVAL},
    {"host", "65536", EINVAL},
    {"host", "99999999999999999999", EINVAL},
    {"host", "-1", EINVAL},
    {"host", "+1", EINVAL},
    {"host", " 1", EINVAL},
    {"127.0.0.1", "\r65537", EINVAL},
    {"127.0.0.1", "\v65537", EINVAL},
    {"127.0.0.1", "\f65537", EINVAL},
    {"::1", "1", EAFNOSUPPORT},
    {"host", "a-service-of-which-nobody-heard-yet", ENAMETOOLONG},
};

START_TEST(argument)
{
    struct inbox box;
    struct address address;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0),
        listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    char longest[NI_MAXHOST + 1];

    memset(longest, 'x', NI_MAXHOST);
    longest[NI_MAXHOST] = 0;
    inbox_open(&box, 4);
    for (int i = 0; i < COUNT(refused_at_once); i++)
        must_fail(exs_connect_host(client, refused_at_once[i].host, refused_at_once[i].service, 0, NULL,
                                   box.queue, NULL),
                  refused_at_once[i].want);
    must_fail(exs_connect_host(client, longest, "1", 0, NULL, box.queue, NULL), ENAMETOOLONG);
    ck_assert_int_eq(atomic_load(&asks), 0);
    longest[NI_MAXHOST - 1] = 0;
    answer.error = EAI_NONAME;
    must(exs_connect_host(client, longest, "65535", 0, NULL, box.queue, NULL));
    take_failed(&box, EXS_EVT_CONNECT, client, ENXIO);
    must_fail(exs_connect_host(listener, "host", "1", 0, NULL, box.queue, NULL), EINVAL);
    must_fail(exs_connect_host(client, "host", "1", 2, NULL, box.queue, NULL), EINVAL);
    must_fail(exs_connect_host(client, "host", "1", 0, NULL, NULL, NULL), EINVAL);
    must_fail(exs_connect_host(client, "host", "1", 0, &(struct timeval){.tv_sec = -1}, box.queue, NULL),
              EINVAL);
    close_socket(&box, client);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

START_TEST(bound)
{
    struct address address = loopback(AF_INET, 0);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    answer.error = EAI_NONAME;
    must(exs_bind(client, SA(&address), address.length));
    must_fail(exs_blocking_connect_host(client, "host", "service"), EINVAL);
    must(exs_blocking_close(client));
}
END_TEST

/* An IPV6_V6ONLY socket can't connect to an IPv4 address, neither by number nor by name. */
START_TEST(ipv6_only)
{
    int client = exs_socket(PF_INET6, SOCK_STREAM, 0), on = 1;
    struct inbox box;

    inbox_open(&box, 4);
    must(exs_setsockopt(client, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
    must_fail(exs_connect_host(client, "127.0.0.1", "1", 0, NULL, box.queue, NULL), EAFNOSUPPORT);
    must_fail(exs_blocking_connect_host(client, "127.0.0.1", "1"), EAFNOSUPPORT);
    close_socket(&box, client);
    inbox_close(&box);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host");
    TCase *c = named_case(suite, "host");

    tcase_add_loop_test(c, by_name, 0, COUNT(kinds));
    tcase_add_loop_test(c, by_name_blocking, 0, COUNT(kinds));
    tcase_add_loop_test(c, by_number, 0, 3);
    tcase_add_test(c, in_turn);
    tcase_add_test(c, silent_first);
    tcase_add_test(c, endless);
    tcase_add_test(c, all_silent);
    tcase_add_test(c, no_time);
    tcase_add_loop_test(c, error_of_a_name, 0, COUNT(errors));
    tcase_add_loop_test(c, shortage, 0, 2);
    tcase_add_test(c, argument);
    tcase_add_test(c, bound);
    tcase_add_test(c, ipv6_only);
    return run_suite(suite);
}
