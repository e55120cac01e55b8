/* SPDX-License-Identifier: BSD-2-Clause */
/* named.c - see named.h. */
#include "named.h"

#include <dlfcn.h>

#define OURS 0x40000000 /* ai_flags of a list that this file has made, not the C library */

struct named answer;
sem_t asked, go, freed;
atomic_int asks;
int family_asked;

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

void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) == -1)
        ;
}

void name_leads_to(const struct address *address)
{
    answer.addresses[answer.count++] = *address;
}

void connect_host(int socket, struct inbox *box)
{
    /* "host" is not a number, so it is looked up. */
    must(exs_connect_host(socket, "host", "7", 0, NULL, box->queue, &answer));
}

TCase *named_case(Suite *suite, const char *name)
{
    TCase *tcase = add_bare_case(suite, name, 30);

    tcase_add_checked_fixture(tcase, names_begin, NULL);
    return tcase;
}
