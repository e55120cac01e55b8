/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_host.c - connecting by name. The names are this program's: its getaddrinfo stands before the system's,
 * and answers when the test lets it.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include "check/support/processes.h"
#include "check/support/support.h"

/* ---- The names ------------------------------------------------------------------------- */

#define ADDRESSES_MAX 3
#define OURS 0x40000000 /* ai_flags of a list that is not the system's */

/* What getaddrinfo says to any name; set before it is asked. */
static struct {
    int error, system_error;
    struct address addresses[ADDRESSES_MAX];
    int count;
    bool waits; /* for a post of `go` */
} answer;
static sem_t asked, go, freed;
static atomic_int asks;
static int family_asked;

static int of_the_system(const char *host, const char *service, const struct addrinfo *hints,
                         struct addrinfo **found)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    return next(host, service, hints, found);
}

static struct addrinfo *list_of(const struct address *addresses, int count)
{
    struct {
        struct addrinfo info[ADDRESSES_MAX];
        struct address copies[ADDRESSES_MAX];
    } *list = calloc(1, sizeof *list);

    for (int i = 0; i < count; i++) {
        list->copies[i] = addresses[i];
        list->info[i] = (struct addrinfo){.ai_flags = OURS,
                                          .ai_family = addresses[i].storage.ss_family,
                                          .ai_addr = SA(&list->copies[i]),
                                          .ai_addrlen = addresses[i].length,
                                          .ai_next = i + 1 < count ? &list->info[i + 1] : NULL};
    }
    return list->info;
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    if (hints->ai_flags & AI_NUMERICHOST)
        return of_the_system(host, service, hints, found);
    family_asked = hints->ai_family;
    atomic_fetch_add(&asks, 1);
    sem_post(&asked);
    while (answer.waits && sem_wait(&go) == -1)
        ;
    if (answer.error == 0)
        *found = list_of(answer.addresses, answer.count);
    errno = answer.system_error;
    return answer.error;
}

void freeaddrinfo(struct addrinfo *list)
{
    void (*next)(struct addrinfo *);

    if (list->ai_flags == OURS) {
        free(list);
        sem_post(&freed);
        return;
    }
    *(void **)&next = dlsym(RTLD_NEXT, "freeaddrinfo");
    next(list);
}

static void names_begin(void)
{
    memset(&answer, 0, sizeof answer);
    sem_init(&asked, 0, 0);
    sem_init(&go, 0, 0);
    sem_init(&freed, 0, 0);
    atomic_store(&asks, 0);
    init_library();
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) == -1)
        ;
}

static void name_leads_to(const struct address *address)
{
    answer.addresses[answer.count++] = *address;
}

/* ---- Connections ------------------------------------------------------------------------- */

static void connect_host(int socket, struct inbox *box)
{
    must(exs_connect_host(socket, "host", "7", 0, NULL, box->queue, &answer)); /* one number is not enough */
}

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

/* Nobody is asked for numbers; an IPv6 socket takes IPv4's, too. */
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

/* Addresses where nobody listens come first. */
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
    must(exs_connect(client, SA(&nobody), nobody.length, 0, NULL, box.queue, NULL)); /* knows of no name */
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

/* One that is silent has half of the time only. */
START_TEST(silent_first)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted = {0};
    struct timeval limit = {.tv_sec = 4};
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
    ck_assert_msg(took > 1.9, "the first address had %.1f s of 4", took);
    close_socket(&box, listener);
    close(keep);
    inbox_close(&box);
}
END_TEST

/* Time without end has no end for the last one either. */
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

/* The last one's errno, when all time is over. */
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

/* ---- While it is looked up ---------------------------------------------------------------- */

static bool is_readable(exs_qhandle_t queue, int ms)
{
    struct pollfd fd = {.fd = exs_qfd(queue), .events = POLLIN};

    return poll(&fd, 1, ms) == 1;
}

/* The call returns and the loop sleeps, until the name server's answer wakes it by the queue's descriptor. */
START_TEST(nobody_waits)
{
    struct inbox box;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&box, 4);
    answer.waits = true;
    answer.error = EAI_NONAME;
    connect_host(client, &box);
    await(&asked);
    inbox_quiet(&box, QUIET_MS);
    ck_assert(!is_readable(box.queue, 0));
    must_fail(exs_connect_host(client, "host", "service", 0, NULL, box.queue, NULL), EINVAL);
    sem_post(&go);
    ck_assert(is_readable(box.queue, WAIT_MS));
    take_failed(&box, EXS_EVT_CONNECT, client, ENXIO);
    close_socket(&box, client);
    inbox_close(&box);
}
END_TEST

/* The queue that the event goes to is not the one that the socket lives on. */
START_TEST(another_queue)
{
    struct inbox first, second;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&first, 4);
    inbox_open(&second, 4);
    answer.error = EAI_NONAME;
    if (_i == 0) {
        connect_host(client, &first);
        take_failed(&first, EXS_EVT_CONNECT, client, ENXIO);
    } else {
        must_fail(exs_blocking_connect_host(client, "host", "service"), ENXIO);
    }
    answer.waits = true;
    connect_host(client, &second);
    inbox_quiet(&second, QUIET_MS);
    sem_post(&go);
    ck_assert(is_readable(second.queue, WAIT_MS));
    take_failed(&second, EXS_EVT_CONNECT, client, ENXIO);
    close_socket(_i == 0 ? &first : &second, client);
    inbox_close(&first);
    inbox_close(&second);
}
END_TEST

/* Nobody wants the answer any more: it is thrown away when it comes. */
START_TEST(given_up)
{
    struct inbox box;
    struct address address = loopback(AF_INET, 1);
    struct timeval limit = {.tv_usec = 50000};
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&box, 4);
    name_leads_to(&address);
    answer.waits = true;
    must(exs_connect_host(client, "host", "service", 0, _i == 0 ? &limit : NULL, box.queue, &answer));
    await(&asked);
    if (_i == 1)
        ck_assert_int_eq(exs_cancel(client, &answer, 0), 1);
    if (_i != 2)
        take_failed(&box, EXS_EVT_CONNECT, client, _i == 0 ? ETIMEDOUT : ECANCELED);
    must(exs_close(client, 0, box.queue, NULL));
    if (_i == 2)
        take_failed(&box, EXS_EVT_CONNECT, client, ECANCELED);
    take_good(&box, EXS_EVT_CLOSE, client);
    inbox_close(&box);
    must(exs_fini());
    must(exs_init(EXS_VERSION));
    sem_post(&go);
    await(&freed);
}
END_TEST

START_TEST(limit_of_a_blocking_call)
{
    struct timeval limit = {.tv_usec = 200000};
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    answer.waits = true;
    answer.error = EAI_AGAIN;
    double start = seconds_now();
    must_fail(exs_connect_host(client, "host", "service", EXS_BLOCK, &limit, NULL, NULL), ETIMEDOUT);
    double took = seconds_now() - start;
    ck_assert_msg(took > 0.18 && took < 0.2 + LATE_S, "a limit of 0.2 s took %.3f s", took);
    sem_post(&go);
    must(exs_blocking_close(client));
}
END_TEST

#define AT_ONCE 8 /* names that are looked up at the same time */
#define MANY 20

static void begin_many(int *clients, struct inbox *box)
{
    answer.waits = true;
    answer.error = EAI_NONAME;
    for (int i = 0; i < MANY; i++) {
        must(clients[i] = exs_socket(PF_INET, SOCK_STREAM, 0));
        connect_host(clients[i], box);
    }
    for (int i = 0; i < AT_ONCE; i++)
        await(&asked);
}

static void let_go(int count)
{
    for (int i = 0; i < count; i++)
        sem_post(&go);
}

/* The others wait in line, where they can be cancelled. */
START_TEST(many)
{
    struct inbox box;
    int clients[MANY];

    inbox_open(&box, MANY);
    begin_many(clients, &box);
    inbox_quiet(&box, QUIET_MS);
    ck_assert_int_eq(atomic_load(&asks), AT_ONCE);
    ck_assert_int_eq(exs_cancel(clients[MANY - 2], &answer, 0), 1);
    take_failed(&box, EXS_EVT_CONNECT, clients[MANY - 2], ECANCELED);
    let_go(MANY - 1);
    for (int i = 0; i < MANY; i++) {
        if (i != MANY - 2)
            take_failed(&box, EXS_EVT_CONNECT, clients[i], ENXIO);
        close_socket(&box, clients[i]);
    }
    ck_assert_int_eq(atomic_load(&asks), MANY - 1);
    clients[0] = exs_socket(PF_INET, SOCK_STREAM, 0); /* the threads have ended, and there is room for others */
    connect_host(clients[0], &box);
    let_go(1);
    take_failed(&box, EXS_EVT_CONNECT, clients[0], ENXIO);
    close_socket(&box, clients[0]);
    inbox_close(&box);
}
END_TEST

static void connect_in_child(void)
{
    struct inbox box;

    must(exs_init(EXS_VERSION));
    inbox_open(&box, 4);
    answer.waits = false;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    connect_host(client, &box);
    take_failed(&box, EXS_EVT_CONNECT, client, ENXIO);
    ck_assert_int_eq(atomic_load(&asks), AT_ONCE + 1);
    close_socket(&box, client);
    inbox_close(&box);
}

/* The parent's threads, and whatever they look up, are not the child's. */
START_TEST(forked)
{
    struct inbox box;
    int clients[MANY];

    inbox_open(&box, MANY);
    begin_many(clients, &box);
    pid_t pid = fork();

    if (pid == 0) {
        connect_in_child();
        _exit(0);
    }
    process_join(pid);
    let_go(MANY);
    for (int i = 0; i < MANY; i++) {
        take_failed(&box, EXS_EVT_CONNECT, clients[i], ENXIO);
        close_socket(&box, clients[i]);
    }
    inbox_close(&box);
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

int main(void)
{
    Suite *suite = suite_create("host");
    TCase *c = add_bare_case(suite, "host", 30);

    tcase_add_checked_fixture(c, names_begin, NULL);
    tcase_add_loop_test(c, by_name, 0, COUNT(kinds));
    tcase_add_loop_test(c, by_name_blocking, 0, COUNT(kinds));
    tcase_add_loop_test(c, by_number, 0, 3);
    tcase_add_test(c, in_turn);
    tcase_add_test(c, silent_first);
    tcase_add_test(c, endless);
    tcase_add_test(c, all_silent);
    tcase_add_test(c, nobody_waits);
    tcase_add_loop_test(c, another_queue, 0, 2);
    tcase_add_loop_test(c, given_up, 0, 3);
    tcase_add_test(c, limit_of_a_blocking_call);
    tcase_add_test(c, many);
    tcase_add_test(c, forked);
    tcase_add_loop_test(c, error_of_a_name, 0, COUNT(errors));
    tcase_add_test(c, argument);
    tcase_add_test(c, bound);
    return run_suite(suite);
}
