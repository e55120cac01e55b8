/* SPDX-License-Identifier: BSD-2-Clause */
/* inlet_fixture.c - exs-serve's connections without a network; see inlet_fixture.h. */
#include "inlet_fixture.h"

#include <arpa/inet.h>
#include <check.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/support/fake_exs.h"

static char folder[] = "inlet-XXXXXX";
struct inlets inlets;
static FILE *said; /* captured standard error */

static void gone(struct inlets *all)
{
    (void)all;
}

int asked_again;

static void again(struct inlets *all)
{
    (void)all;
    asked_again++;
}

static void deliver(void *ahandle, const exs_event_t *event)
{
    inlet_event(ahandle, event);
}

void inlets_setup(void)
{
    const struct store_limits limits = {.total = 1 << 30, .files = 1000};

    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(store_open(&inlets.store, folder, &limits), 0);
    inlets.queue = (exs_qhandle_t)&inlets;
    inlets_begin(&inlets);
    inlets.patience = PATIENCE;
    inlets.rate = RATE;
    inlets.most = MOST;
    inlets.of_one = OF_ONE;
    inlets.gone = gone;
    inlets.again = again;
    fake_deliver = deliver;
    said = tmpfile();
    ck_assert_int_ne(dup2(fileno(said), STDERR_FILENO), -1);
}

int count_said(const char *what)
{
    char line[512];
    int count = 0;

    rewind(said);
    while (fgets(line, sizeof(line), said) != NULL)
        count += strstr(line, what) != NULL;
    return count;
}

void inlets_teardown(void)
{
    struct dirent *entry;

    inlets_close_all(&inlets);
    for (int sock = 0; sock < 1000; sock++)
        fake_closed(sock);
    ck_assert_int_eq(inlets.count, 0);
    inlets_free(&inlets);
    ck_assert_int_eq(fake_regions, 0);
    ck_assert(STAILQ_EMPTY(&fake_calls));
    store_close(&inlets.store);
    DIR *stream = opendir(folder);
    while ((entry = readdir(stream)) != NULL) {
        ck_assert_msg(strstr(entry->d_name, ".part") == NULL, "a temporary file is left: %s", entry->d_name);
        unlinkat(dirfd(stream), entry->d_name, 0);
    }
    closedir(stream);
    rmdir(folder);
}

void open_at(int sock, const char *address)
{
    struct sockaddr_storage peer = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&peer;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&peer;

    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1)
        peer.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1)
        peer.ss_family = AF_INET6;
    v4->sin_port = htons((in_port_t)(1000 + sock)); /* same offset in sockaddr_in6; any port will do */
    inlet_open(&inlets, sock, &peer);
}

void open_from(int sock, unsigned host)
{
    char address[24];

    snprintf(address, sizeof address, "10.0.%u.%u", host / 256 % 256, host % 256);
    open_at(sock, address);
}

void pass(int seconds)
{
    while (seconds-- > 0)
        inlets_second(&inlets);
}

void expect_open(int sock)
{
    ck_assert_ptr_nonnull(fake_first(sock, EXS_EVT_RECV));
    ck_assert_ptr_null(fake_first(sock, EXS_EVT_CLOSE));
}
