/* SPDX-License-Identifier: BSD-2-Clause */
/* link_rows.c - the links, one row each, and which of them this machine has. See faults.h. */
#include "faults.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/wait.h>

const struct link_row link_rows[] = {
    {.name = "shm", .device = "soft", .link = "shm", .host = "localhost"},
    {.name = "tcp", .device = "soft", .link = "tcp", .host = "localhost", .network = true, .stream = true},
    {.name = "udp", .device = "soft", .link = "udp", .host = "localhost", .packets = true, .network = true},
    {.name = "rxe", .device = "rdma", .link = "auto", .host = "exs-guest", .adapter = true},
};
const int link_count = COUNT(link_rows);

void link_use(const struct link_row *link)
{
    setenv("EXS_DEVICE", link->device, 1);
    setenv("EXS_LINK", link->link, 1);
    if (!link->adapter)
        unsetenv("EXS_TEST_ADDR");
}

/* Returns whether the link's name resolves to its address. For an adapter the machine's administrator must
 * provide it. */
static bool has_name(const struct link_row *link)
{
    const char *given = getenv("EXS_TEST_ADDR");
    const struct addrinfo hints = {.ai_family = AF_INET};
    struct addrinfo *found = NULL;
    struct in_addr wanted;

    if (inet_pton(AF_INET, given ? given : "127.0.0.1", &wanted) != 1 ||
        getaddrinfo(link->host, NULL, &hints, &found) != 0)
        return false;
    const struct sockaddr_in *is = (const struct sockaddr_in *)(const void *)found->ai_addr;
    bool same = is->sin_addr.s_addr == wanted.s_addr;

    freeaddrinfo(found);
    return same;
}

static enum here look(const struct link_row *link)
{
    link_use(link);
    if (exs_init(EXS_VERSION) != 0 || exs_getdevices(NULL, 0) <= 0)
        return NO_DEVICE;
    return has_name(link) ? HERE : NO_NAME;
}

/* Asks in a separate process, because exs_init can be called once. */
enum here link_ask(const struct link_row *link)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit((int)look(link));
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return NO_DEVICE;
    return (enum here)WEXITSTATUS(status);
}
