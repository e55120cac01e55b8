/* SPDX-License-Identifier: BSD-2-Clause */
/* abstract.c - see abstract.h. The length of an address ends with the name, without a zero byte. */
#include "abstract.h"
#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>

static socklen_t address_of(const char *name, struct sockaddr_un *un)
{
    size_t length = strlen(name);

    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    ck_assert_uint_lt(length, sizeof un->sun_path);
    memcpy(un->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int abstract_take(const char *name, int type)
{
    struct sockaddr_un un;
    socklen_t length = address_of(name, &un);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, length), 0);
    return fd;
}

int abstract_visit(const char *name)
{
    struct sockaddr_un un;
    socklen_t length = address_of(name, &un);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (connect(fd, (struct sockaddr *)&un, length) == 0 && fcntl(fd, F_SETFL, 0) == 0)
        return fd;
    close(fd);
    return -1;
}
