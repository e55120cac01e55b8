/* SPDX-License-Identifier: BSD-2-Clause */
/* roce_port_explain.c - explains why UDP port 4791 is not available: which program has it, and what to do. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "soft/engine/wire.h"
#include "roce_port.h"

/* A line of /proc/net/udp: number, local address and port, remote ones, state, queues, timer, retransmissions, user. */
#define PORT_FIELD 1
#define USER_FIELD 7

/* Whether the line is of a socket at the port; *user is then its user. */
static bool read_line(const char *line, unsigned long *user)
{
    const char *at = line, *port;
    bool found = false;

    for (int field = 0; *at != '\0' && field <= USER_FIELD; field++) {
        at += strspn(at, " ");
        if (field == PORT_FIELD && (port = strchr(at, ':')) != NULL)
            found = strtoul(port + 1, NULL, 16) == SOFT_UDP_PORT;
        if (field == USER_FIELD)
            *user = strtoul(at, NULL, 10);
        while (*at != '\0' && *at != ' ')
            at++;
    }
    return found;
}

static bool find_owner(const char *table, unsigned long *user)
{
    FILE *file = fopen(table, "re");
    char line[256];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = read_line(line, user);
    if (file != NULL)
        fclose(file);
    return found;
}

/* Whether the kernel's software RDMA device is loaded. */
static bool has_rxe(void)
{
    FILE *file = fopen("/sys/module/rdma_rxe/initstate", "re");

    if (file != NULL)
        fclose(file);
    return file != NULL;
}

static void explain_taken(char *text, size_t size)
{
    unsigned long user = 0;
    bool found = find_owner("/proc/net/udp", &user) || find_owner("/proc/net/udp6", &user);

    if (found && user == 0 && has_rxe())
        snprintf(text, size,
                 "the kernel's rxe has it: use that by EXS_DEVICE=rdma, or take it away (rdma link delete)");
    else if (found && user != geteuid())
        snprintf(text, size,
                 "programs of user %lu have it, and only one user's can: end them, or run as that user", user);
    else
        snprintf(text, size, "another program has it: see ss -ulpn sport = :%d", SOFT_UDP_PORT);
}

void roce_port_explain(int error, char *text, size_t size)
{
    if (error == EADDRINUSE)
        explain_taken(text, size);
    else if (error == EUSERS)
        snprintf(text, size, "%d contexts share it already, which is the maximum: close some", ROCE_SHARES);
    else if (error == EPERM)
        snprintf(text, size, "another user has names by which your programs find each other: see ss -xlp");
    else if (error == ETIMEDOUT)
        snprintf(text, size, "those of your programs that have it do not answer: are they stopped?");
    else
        snprintf(text, size, "%s", strerror(error));
}
