/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unload.c - a plug-in loads the shared library, uses it, calls exs_fini(), and is unloaded by dlclose(3),
 * while threads of the library or of the program still have to run code of the library.
 */
#include <dlfcn.h>
#include <limits.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include "check/support/support.h"

static void *library;

/* The shared library's function of this name; this program is linked with the static library, too. */
#define IN(name) ((__typeof__(&name))find(#name))

static void *find(const char *name)
{
    void *found = dlsym(library, name);

    ck_assert_msg(found != NULL, "%s: %s", name, dlerror());
    return found;
}

static char path[PATH_MAX];

static void load(void)
{
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    must(IN(exs_init)(EXS_VERSION));
}

static void unload(void)
{
    must(IN(exs_fini)());
    ck_assert_int_eq(dlclose(library), 0);
}

/* ---- A thread that has waited --------------------------------------------------------- */

static sem_t waited, unloaded;

static void *wait_once(void *address)
{
    struct address *to = address;
    int sock = IN(exs_socket)(PF_INET, SOCK_STREAM, 0);

    must(sock);
    must_fail(IN(exs_blocking_connect)(sock, SA(to), to->length), ECONNREFUSED);
    must(IN(exs_blocking_close)(sock));
    sem_post(&waited);
    sem_wait(&unloaded);
    return NULL; /* the library's per-thread data are freed now */
}

START_TEST(thread_ends_later)
{
    int keep;
    struct address to = refusing_address(&keep);

    sem_init(&waited, 0, 0);
    sem_init(&unloaded, 0, 0);
    load();
    pthread_t thread = thread_start(wait_once, &to);

    sem_wait(&waited);
    unload();
    sem_post(&unloaded);
    thread_join(thread);
}
END_TEST

/* ---- A slow name lookup --------------------------------------------------------------- */

static bool looks_up;
static sem_t asked, may_answer, answered;

/* Replaces the C library's function: a name server that answers when the test allows it. */
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *hints, struct addrinfo **result)
{
    (void)name, (void)service, (void)result;
    if (!looks_up || hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    sem_post(&asked);
    sem_wait(&may_answer);
    sem_post(&answered);
    return EAI_AGAIN;
}

START_TEST(look_up_ends_later)
{
    exs_event_t event;

    sem_init(&asked, 0, 0);
    sem_init(&may_answer, 0, 0);
    sem_init(&answered, 0, 0);
    looks_up = true;
    load();
    exs_qhandle_t queue = IN(exs_qcreate)(2);
    int sock = IN(exs_socket)(PF_INET, SOCK_STREAM, 0);

    must(IN(exs_connect_host)(sock, "slow.example", "80", 0, NULL, queue, NULL));
    sem_wait(&asked);
    must(IN(exs_close)(sock, 0, queue, NULL));
    for (int events = 0; events < 2; events++)
        ck_assert_int_eq(IN(exs_qdequeue)(queue, &event, 1, &(struct timeval){.tv_sec = 10}), 1);
    must(IN(exs_qdelete)(queue));
    unload();
    sem_post(&may_answer);
    sem_wait(&answered);
    while (count_threads() > 1)
        sched_yield();
}
END_TEST

/* ---- Loading it again ----------------------------------------------------------------- */

START_TEST(loaded_again)
{
    int before = 0;

    for (int i = 0; i < 5; i++) {
        load();
        int sock = IN(exs_socket)(PF_INET, SOCK_STREAM, 0);

        must(IN(exs_blocking_close)(sock));
        unload();
        if (i == 0)
            before = count_fds();
        ck_assert_int_eq(count_fds(), before);
    }
}
END_TEST

int main(void)
{
    const char *folder = getenv("EXS_BUILDDIR");
    Suite *suite = suite_create("unload");
    TCase *tcase = add_bare_case(suite, "unload", 15);

    snprintf(path, sizeof path, "%s/.libs/libexs.so", folder != NULL ? folder : ".");
    tcase_add_test(tcase, thread_ends_later);
    tcase_add_test(tcase, look_up_ends_later);
    tcase_add_test(tcase, loaded_again);
    return run_suite(suite);
}
