/* SPDX-License-Identifier: BSD-2-Clause */
/* choice.c - chooses a device as a connect would, without connecting. See choice.h. */
#include "choice.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DISCARD 9 /* a port; no packet is sent to it */

/* Finds the local address by connecting a UDP socket. Returns 0 or an errno. */
static int find_way(struct sockaddr_storage *to, socklen_t length, struct sockaddr_storage *from)
{
    socklen_t size = sizeof(*from);
    int error = 0, fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd == -1)
        return errno;
    ((struct sockaddr_in *)to)->sin_port = htons(DISCARD); /* same offset in sockaddr_in6 */
    if (connect(fd, (struct sockaddr *)to, length) == -1 ||
        getsockname(fd, (struct sockaddr *)from, &size) == -1) {
        error = errno;
        *from = (struct sockaddr_storage){0};
    }
    close(fd);
    return error;
}

static bool is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const struct sockaddr_in *)a, *b4 = (const struct sockaddr_in *)b;
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a, *b6 = (const struct sockaddr_in6 *)b;

    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0 &&
           a6->sin6_scope_id == b6->sin6_scope_id;
}

/* Whether the device has this local address. The software device has all addresses, also those that do not fit into its
 * list. */
static bool device_leads(const exs_device_t *device, const struct sockaddr_storage *from)
{
    if (strcmp(device->exs_kind, "soft") == 0)
        return true;
    for (int i = 0; i < device->exs_address_count && i < EXS_DEVICE_ADDRESSES; i++) {
        if (is_same_host(&device->exs_addresses[i], from))
            return true;
    }
    return false;
}

struct choice choice_make(const exs_device_t *devices, int count, const struct sockaddr *to, socklen_t length)
{
    struct choice choice = {0};
    struct sockaddr_storage there = {0};

    memcpy(&there, to, length);
    int error = find_way(&there, length, &choice.from);

    if (error != 0) {
        snprintf(choice.why, sizeof(choice.why), "there is no way: %s", strerror(error));
        return choice;
    }
    for (int i = 0; i < count && choice.device == NULL; i++) {
        if (device_leads(&devices[i], &choice.from))
            choice.device = &devices[i];
    }
    if (choice.device == NULL)
        snprintf(choice.why, sizeof(choice.why),
                 "no device that EXS_DEVICE allows has the address that leads there");
    else if (strcmp(choice.device->exs_kind, "soft") != 0)
        snprintf(choice.why, sizeof(choice.why), "it has the address that leads there");
    else if (count > 1)
        snprintf(choice.why, sizeof(choice.why), "no other device has the address that leads there");
    else
        snprintf(choice.why, sizeof(choice.why), "it is the only one");
    return choice;
}
