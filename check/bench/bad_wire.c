/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bad_wire.c - a library to preload: makes UDP over loopback as unreliable as a real network, for any program.
 *
 *   BAD_WIRE_LOSS=N    on average one of N calls that send datagrams is lost, with all of its datagrams; the choice is
 *                      pseudorandom, seeded by the process ID
 *   BAD_WIRE_BUFFER=N  limits each socket's buffers to N bytes, also for privileged users; 212992 is the default limit
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static _Atomic uint64_t
    die; /* counter; pairs with no other access: each call of throw() gets a different number */

static unsigned long setting(const char *name)
{
    const char *text = getenv(name);

    return text == NULL ? 0 : strtoul(text, NULL, 10);
}

static void *next_symbol(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    if (symbol == NULL)
        abort();
    return symbol;
}

/* Returns the next pseudorandom number of SplitMix64. */
static uint64_t throw(void)
{
    uint64_t number = (atomic_fetch_add(&die, 1) + (uint64_t)getpid()) * UINT64_C(0x9e3779b97f4a7c15);

    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

static int is_lost(int fd)
{
    static unsigned long one_of = 1; /* 1: the setting was not read yet */
    int type = 0;
    socklen_t length = sizeof type;

    if (one_of == 1)
        one_of = setting("BAD_WIRE_LOSS");
    return one_of > 1 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM &&
           throw() % one_of == 0;
}

SHOWN ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static ssize_t (*real)(int, const struct msghdr *, int);
    size_t length = 0;

    if (real == NULL)
        *(void **)&real = next_symbol("sendmsg");
    if (!is_lost(fd))
        return real(fd, message, flags);
    for (size_t i = 0; i < message->msg_iovlen; i++)
        length += message->msg_iov[i].iov_len;
    return (ssize_t)length;
}

SHOWN int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
    static int (*real)(int, struct mmsghdr *, unsigned int, int);

    if (real == NULL)
        *(void **)&real = next_symbol("sendmmsg");
    return is_lost(fd) ? (int)count : real(fd, messages, count, flags);
}

SHOWN int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    static int (*real)(int, int, int, const void *, socklen_t);
    int most = (int)setting("BAD_WIRE_BUFFER"), wanted;

    if (real == NULL)
        *(void **)&real = next_symbol("setsockopt");
    if (most == 0 || level != SOL_SOCKET || length != sizeof wanted)
        return real(fd, level, option, value, length);
    if (option == SO_RCVBUFFORCE || option == SO_SNDBUFFORCE) {
        errno = EPERM;
        return -1;
    }
    if (option != SO_RCVBUF && option != SO_SNDBUF)
        return real(fd, level, option, value, length);
    memcpy(&wanted, value, sizeof wanted);
    return real(fd, level, option, wanted < most ? &wanted : &most, length);
}
