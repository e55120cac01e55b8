/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.c - calls getaddrinfo(3), and checks port numbers, which getaddrinfo() would truncate. See resolve.h. */
#include "resolve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "options.h"

/* Whether the port is a number in the valid range, or may be a name, which begins with a letter. getaddrinfo() would
 * use the lower bits of a larger number. */
static bool may_be_port(const char *port, long least)
{
    static const char digits[] = "0123456789", signs[] = " \t\n+-";

    if (port[0] == '\0' || strchr(signs, port[0]) != NULL)
        return false;
    return port[strspn(port, digits)] != '\0' || options_number(port, least, 65535) != -1;
}

static void say_bad_port(const char *port, bool listening, char why[RESOLVE_TEXT_MAX])
{
    snprintf(why, RESOLVE_TEXT_MAX, "bad port '%s': want a number from %d to 65535, or a service's name", port,
             listening ? 0 : 1);
    errno = EINVAL;
}

static void say_bad_address(const char *host, int error, char why[RESOLVE_TEXT_MAX])
{
    snprintf(why, RESOLVE_TEXT_MAX, "bad address '%s': %s: want a host's name, or its number", host,
             error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    errno = EADDRNOTAVAIL;
}

struct addrinfo *resolve(const char *host, const char *port, bool listening, char why[RESOLVE_TEXT_MAX])
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = listening ? AI_PASSIVE : 0};
    struct addrinfo *found;

    if (!may_be_port(port, listening ? 0 : 1)) {
        say_bad_port(port, listening, why);
        return NULL;
    }
    int error = getaddrinfo(host, port, &hints, &found);
    if (error == 0)
        return found;
    if (error == EAI_SERVICE)
        say_bad_port(port, listening, why);
    else
        say_bad_address(host, error, why);
    return NULL;
}
