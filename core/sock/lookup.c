/* SPDX-License-Identifier: BSD-2-Clause */
/* lookup.c - name lookups, in threads that exit when there is none left. See lookup.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/fds.h"
#include "core/base/log.h"
#include "core/base/threads.h"
#include "lookup.h"
#include "sock.h"

/* maximum; a name server that does not answer blocks each thread until its timeout */
#define THREADS_MAX 8
#define PORT_MAX 65535

struct lookup {
    /* Its link in `line`, while is_queued. This and the next three members are guarded by `lock`, below. */
    STAILQ_ENTRY(lookup) link;
    /* the socket that waits for the answer; NULL: dropped, and the thread frees the lookup */
    struct sock *sock;
    bool is_queued, answered;
    /* EAI_..., once answered; from then on this and the next two members belong to the socket */
    int error;
    struct addrinfo *found; /* the whole list; owned */
    const struct addrinfo *next;
    struct addrinfo hints;
    int system_error; /* errno, if `error` is EAI_SYSTEM */
    char host[NI_MAXHOST], service[NI_MAXSERV];
};

/* Leaf lock: while it is held, no other lock is taken; only a reference to a socket. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER; /* signaled when `telling` has decreased */
/* guarded by `lock`: the lookups that no thread has started */
static STAILQ_HEAD(, lookup) line = STAILQ_HEAD_INITIALIZER(line);
static int threads; /* running lookup threads */
static int telling; /* those of them that hold a reference to a socket */

/* ---- Arguments and answers ------------------------------------------------------------------------------ */

/* Is `service` a valid port number, or possibly a service name? Port numbers are checked here, because
 * getaddrinfo() uses only their lower 16 bits. */
static bool may_be_service(const char *service, bool *is_number)
{
    static const char digits[] = "0123456789", signs[] = " \t\n\v\f\r+-";

    *is_number = service[strspn(service, digits)] == '\0';
    if (strchr(signs, service[0]) != NULL) /* also true for an empty string */
        return false;
    unsigned long port = *is_number ? strtoul(service, NULL, 10) : 1;

    return port > 0 && port <= PORT_MAX;
}

static int check_names(const char *host, const char *service, bool *is_number)
{
    if (host == NULL || service == NULL)
        return xs_invalid("%s is NULL", host == NULL ? "host" : "service");
    if (strnlen(host, NI_MAXHOST) == NI_MAXHOST || strnlen(service, NI_MAXSERV) == NI_MAXSERV) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (may_be_service(service, is_number))
        return 0;
    return xs_invalid("service is '%s': a number from 1 to %d, or a service's name", service, PORT_MAX);
}

/* Convert the resolver's error to an errno that users of sockets expect. Errors that valid arguments can't
 * cause become EIO. */
static int errno_of(const struct lookup *lookup)
{
    switch (lookup->error) {
    case EAI_NONAME:
    case EAI_NODATA:
        return ENXIO;
    case EAI_ADDRFAMILY:
    case EAI_FAMILY:
        return EAFNOSUPPORT;
    case EAI_SERVICE:
        return EINVAL;
    case EAI_AGAIN:
        return EAGAIN;
    case EAI_MEMORY:
        return ENOMEM;
    case EAI_SYSTEM:
        return lookup->system_error != 0 ? lookup->system_error : EIO;
    default:
        return EIO;
    }
}

static void say_not_found(const struct lookup *lookup)
{
    xs_log("host '%s', service '%s': %s", lookup->host, lookup->service,
           lookup->error == EAI_SYSTEM ? strerror(errno_of(lookup)) : gai_strerror(lookup->error));
}

/* Returns EMFILE or ENFILE if no descriptor is available, else 0. Without a descriptor getaddrinfo() can
 * neither read files nor ask a server, and reports that the name does not exist. */
static int descriptor_shortage(void)
{
    int fd = fds_own(open("/", O_PATH | O_CLOEXEC)), error = fd == -1 ? errno : 0;

    if (fd != -1)
        fds_close(fd);
    return error == EMFILE || error == ENFILE ? error : 0;
}

/* Resolving a numeric address needs no descriptor. */
static bool may_be_shortage(const struct lookup *lookup)
{
    return (lookup->error == EAI_NONAME || lookup->error == EAI_AGAIN) &&
           (lookup->hints.ai_flags & AI_NUMERICHOST) == 0;
}

static void look_up(struct lookup *lookup)
{
    errno = 0;
    lookup->error = getaddrinfo(lookup->host, lookup->service, &lookup->hints, &lookup->found);
    lookup->system_error = errno;
    if (may_be_shortage(lookup)) {
        int error = descriptor_shortage();

        lookup->error = error != 0 ? EAI_SYSTEM : lookup->error;
        lookup->system_error = error != 0 ? error : lookup->system_error;
    }
    if (lookup->error != 0)
        lookup->found = NULL;
    lookup->next = lookup->found;
}

/* Resolve numeric arguments without a name server. False: a host or service name, which needs a thread. */
static bool answer_at_once(struct lookup *lookup)
{
    struct addrinfo hints = lookup->hints;

    lookup->hints.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
    look_up(lookup);
    lookup->hints = hints;
    lookup->answered = lookup->error != EAI_NONAME;
    return lookup->answered;
}

static void free_lookup(struct lookup *lookup)
{
    int saved = errno;

    if (lookup->found != NULL)
        freeaddrinfo(lookup->found);
    free(lookup);
    errno = saved;
}

/* Unless IPV6_V6ONLY is set, an IPv6 socket also gets IPv4 addresses, in their mapped form. */
struct lookup *xs_lookup_new(const struct sock *sock, const char *host, const char *service)
{
    struct lookup *lookup;
    bool is_number = false;

    if (check_names(host, service, &is_number) < 0)
        return NULL;
    lookup = calloc(1, sizeof(*lookup));
    if (lookup == NULL)
        return NULL;
    memcpy(lookup->host, host, strlen(host));
    memcpy(lookup->service, service, strlen(service));
    lookup->hints = (struct addrinfo){
        .ai_family = sock->family,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = sock->family == PF_INET6 && !sock->options.ipv6_only ? AI_V4MAPPED | AI_ALL : 0};
    if (!is_number || !answer_at_once(lookup) || lookup->error == 0)
        return lookup;
    say_not_found(lookup);
    errno = errno_of(lookup);
    free_lookup(lookup);
    return NULL;
}

/* ---- Threads -------------------------------------------------------------------------------------------- */

/* Notify the socket that there is an answer. Called with the lock, which it releases in between. xs_lookups_settle()
 * waits until no thread is in this function. */
static void notify_socket(struct sock *sock)
{
    xs_sock_ref(sock);
    telling++;
    pthread_mutex_unlock(&lock);
    xs_host_found(sock);
    xs_sock_put(sock);
    pthread_mutex_lock(&lock);
    telling--;
    pthread_cond_broadcast(&told);
}

static void *run_lookups(void *unused)
{
    struct lookup *lookup;

    (void)unused;
    pthread_setname_np(pthread_self(), "exs-lookup");
    pthread_mutex_lock(&lock);
    while ((lookup = STAILQ_FIRST(&line)) != NULL) {
        STAILQ_REMOVE_HEAD(&line, link);
        lookup->is_queued = false;
        pthread_mutex_unlock(&lock);
        look_up(lookup);
        pthread_mutex_lock(&lock);
        lookup->answered = true;
        if (lookup->sock != NULL) {
            if (lookup->error != 0)
                say_not_found(lookup);
            notify_socket(lookup->sock);
        } else {
            free_lookup(lookup);
        }
    }
    threads--;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int xs_lookup_start(struct lookup *lookup, struct sock *sock)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    if (threads < THREADS_MAX) {
        error = threads_start(NULL, run_lookups);
        threads += error == 0;
    }
    if (threads > 0) { /* a running thread will process it */
        lookup->sock = sock;
        lookup->is_queued = true;
        STAILQ_INSERT_TAIL(&line, lookup, link);
        error = 0;
    }
    pthread_mutex_unlock(&lock);
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

void xs_lookup_drop(struct lookup *lookup)
{
    pthread_mutex_lock(&lock);
    bool under_way = lookup->sock != NULL && !lookup->is_queued && !lookup->answered;

    if (lookup->is_queued)
        STAILQ_REMOVE(&line, lookup, lookup, link);
    lookup->sock = NULL;
    pthread_mutex_unlock(&lock);
    if (!under_way)
        free_lookup(lookup);
}

enum answer xs_lookup_answer(struct lookup *lookup, int *error)
{
    pthread_mutex_lock(&lock);
    bool answered = lookup->answered;

    pthread_mutex_unlock(&lock);
    if (!answered)
        return NOT_YET;
    if (lookup->error == 0)
        return FOUND;
    *error = errno_of(lookup);
    return FAILED;
}

const struct addrinfo *xs_lookup_next(struct lookup *lookup, unsigned *left)
{
    const struct addrinfo *next = lookup->next;

    *left = 0;
    for (const struct addrinfo *each = next; each != NULL; each = each->ai_next)
        ++*left;
    if (next != NULL)
        lookup->next = next->ai_next;
    return next;
}

void xs_lookups_settle(void)
{
    pthread_mutex_lock(&lock);
    while (telling > 0)
        pthread_cond_wait(&told, &lock);
    pthread_mutex_unlock(&lock);
}

void xs_lookups_reset(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&told, NULL);
    STAILQ_INIT(&line);
    threads = telling = 0;
}
