/* SPDX-License-Identifier: BSD-2-Clause */
/* init.c - tests of exs_init (5.2.3), exs_fini, which is not in the thesis, and exs_socket (5.3.11). */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include "bodies.h"

/* Whether the library is initialized: otherwise calls fail with EPERM. */
static bool initialized(void)
{
    return exs_qfd(NULL) == -1 && errno != EPERM;
}

/* ---- exs_init -------------------------------------------------------------------------------------------- */

static void init_version(struct trial *trial)
{
    outcome(trial, exs_init(EXS_VERSION + 1));
    outcome(trial, exs_init(0));
    require(trial, !initialized(), "the library is initialized in spite of the error");
}

static void init_negative(struct trial *trial)
{
    outcome(trial, exs_init(-1));
}

static void init(struct trial *trial)
{
    outcome(trial, exs_init(EXS_VERSION));
    require(trial, initialized(), "the library is not initialized");
}

static void init_again(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_init(EXS_VERSION));
}

static void init_wrong_again(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_init(EXS_VERSION + 1));
}

static void init_forked(struct trial *trial)
{
    ok_init(trial);
    in_child(trial);
    outcome(trial, exs_init(EXS_VERSION));
    require(trial, initialized(), "the library is not initialized");
}

static const struct row init_rows[] = {
    {1, ENOTSUP, "exs_init(INVALID_VERSION)", BOTH, THESIS, init_version, NULL},
    {2, 0, "exs_init(VERSION)", BOTH, THESIS, init, NULL},
    {3, 0, "exs_init(VERSION) [exs_init already]", BOTH, OURS, init_again,
     "It counts: see exs_fini. In the thesis it is EALREADY."},
    {4, ENOTSUP, "exs_init(-1)", BOTH, OURS, init_negative, NULL},
    {5, ENOTSUP, "exs_init(INVALID_VERSION) [exs_init already]", BOTH, OURS, init_wrong_again, NULL},
    {6, 0, "exs_init(VERSION) [in a forked child of a process that called it]", BOTH, OURS, init_forked, NULL},
};
static const char *const init_needs[] = {NULL};
const struct group group_init = {"exs_init", "5.2.3", init_needs, ROWS(init_rows)};

/* ---- exs_init_config ------------------------------------------------------------------------------------- */

static void config_none(struct trial *trial)
{
    outcome(trial, exs_init_config(EXS_VERSION, NULL));
    require(trial, initialized(), "the library is not initialized");
}

static void config_version(struct trial *trial)
{
    outcome(trial, exs_init_config(EXS_VERSION + 1, NULL));
    require(trial, !initialized(), "the library is initialized in spite of the error");
}

static void config_again(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_init_config(EXS_VERSION, &(exs_config_t)EXS_CONFIG_INIT));
    require(trial, exs_fini() == 0 && initialized(), "it does not count");
}

static void config_forked(struct trial *trial)
{
    exs_config_t config = EXS_CONFIG_INIT;

    ok_init(trial);
    in_child(trial);
    config.exs_rcvbuf = 5000;
    outcome(trial, exs_init_config(EXS_VERSION, &config));
    require(trial, initialized(), "the library is not initialized");
}

/* The receive buffer of a new socket shows whether a configuration is used. */
static void require_buffer(struct trial *trial, int bytes)
{
    int fd = exs_socket(PF_INET, SOCK_STREAM, 0), value = -1;

    require(trial, exs_getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &(socklen_t){sizeof(value)}) == 0,
            "exs_getsockopt failed");
    require(trial, value == bytes, "the socket has another receive buffer");
}

static void config_field(struct trial *trial)
{
    exs_config_t config = EXS_CONFIG_INIT;

    config.exs_rcvbuf = 5000;
    outcome(trial, exs_init_config(EXS_VERSION, &config));
    require_buffer(trial, 8192);
}

/* Row 12 sets a byte that follows the fields of this version, row 7 does not. */
static void config_longer(struct trial *trial)
{
    struct {
        exs_config_t config;
        unsigned char more[64];
    } longer = {EXS_CONFIG_INIT, {0}};

    longer.config.exs_size = sizeof(longer);
    longer.config.exs_rcvbuf = 5000;
    longer.more[sizeof(longer.more) - 1] = trial->row->number == 12;
    outcome(trial, exs_init_config(EXS_VERSION, &longer.config));
    if (trial->row->number == 12)
        require(trial, !initialized(), "the library is initialized in spite of the error");
    else
        require_buffer(trial, 8192);
}

static void config_shorter(struct trial *trial)
{
    exs_config_t config = EXS_CONFIG_INIT;

    config.exs_size = offsetof(exs_config_t, exs_rcvbuf);
    outcome(trial, exs_init_config(EXS_VERSION, &config));
}

static void config_size(struct trial *trial)
{
    exs_config_t config = {0};

    outcome(trial, exs_init_config(EXS_VERSION, &config));
}

static void config_invalid(struct trial *trial)
{
    exs_config_t config = EXS_CONFIG_INIT;

    config.exs_rcvbuf = -1;
    outcome(trial, exs_init_config(EXS_VERSION, &config));
    require(trial, !initialized(), "the library is initialized in spite of the error");
}

static void config_device(struct trial *trial)
{
    exs_config_t config = EXS_CONFIG_INIT;

    unsetenv("EXS_DEVICE");
    config.exs_device = "no-such-device";
    outcome(trial, exs_init_config(EXS_VERSION, &config));
}

static void config_other(struct trial *trial)
{
    exs_config_t config = EXS_CONFIG_INIT;

    ok_init(trial);
    config.exs_rcvbuf = 5000;
    outcome(trial, exs_init_config(EXS_VERSION, &config));
    require(trial, exs_fini() == 0 && !initialized(), "it counts in spite of the error");
}

static const struct row init_config_rows[] = {
    {1, ENOTSUP, "exs_init_config(INVALID_VERSION, NULL)", BOTH, OURS, config_version, NULL},
    {2, 0, "exs_init_config(VERSION, NULL)", BOTH, OURS, config_none, NULL},
    {3, 0, "exs_init_config(VERSION, EXS_CONFIG_INIT) [exs_init already]", BOTH, OURS, config_again,
     "It counts, and a field that is 0 agrees with every value."},
    {4, 0, "exs_init_config(VERSION, config) [in a forked child of a process that called exs_init]", BOTH, OURS,
     config_forked, NULL},
    {5, 0, "exs_init_config(VERSION, config)", BOTH, OURS, config_field, NULL},
    {6, EINVAL, "exs_init_config(VERSION, SHORTER_STRUCT)", BOTH, OURS, config_shorter,
     "Shorter than that of 3.0.0, the first one."},
    {7, 0, "exs_init_config(VERSION, LONGER_STRUCT)", BOTH, OURS, config_longer,
     "Of a program that was compiled with a later version, and sets no new field."},
    {8, EINVAL, "exs_init_config(VERSION, exs_size 0)", BOTH, OURS, config_size, NULL},
    {9, EINVAL, "exs_init_config(VERSION, INVALID_VALUE)", BOTH, OURS, config_invalid, NULL},
    {10, ENODEV, "exs_init_config(VERSION, NO_DEVICE)", BOTH, OURS, config_device, NULL},
    {11, EALREADY, "exs_init_config(VERSION, config) [exs_init already, without it]", BOTH, OURS, config_other,
     NULL},
    {12, EINVAL, "exs_init_config(VERSION, LONGER_STRUCT with a new field)", BOTH, OURS, config_longer, NULL},
};
const struct group group_init_config = {"exs_init_config", NULL, init_needs, ROWS(init_config_rows)};

/* ---- exs_fini -------------------------------------------------------------------------------------------- */

/* The last exs_fini(), after which the library is not initialized. */
static void ended(struct trial *trial)
{
    outcome(trial, exs_fini());
    require(trial, exs_qfd(NULL) == -1 && errno == EPERM, "the library is still initialized");
}

/* An exs_fini() that fails because objects exist, and changes nothing. */
static void not_ended(struct trial *trial)
{
    outcome(trial, exs_fini());
    require(trial, initialized(), "the library is not initialized any more");
}

static void fini_uninitialized(struct trial *trial)
{
    outcome(trial, exs_fini());
}

static void fini(struct trial *trial)
{
    ok_init(trial);
    ended(trial);
}

static void fini_twice(struct trial *trial)
{
    ok_init(trial);
    require(trial, exs_fini() == 0, "the first exs_fini failed");
    outcome(trial, exs_fini());
}

static void fini_counted(struct trial *trial)
{
    ok_init(trial);
    require(trial, exs_init(EXS_VERSION) == 0, "the second exs_init failed");
    require(trial, exs_socket(PF_INET, SOCK_STREAM, 0) >= 0, "exs_socket failed");
    not_ended(trial);
}

static void fini_refused_init(struct trial *trial)
{
    ok_init(trial);
    require(trial, exs_init(EXS_VERSION + 1) == -1, "an unknown version is taken");
    ended(trial);
}

static void fini_init(struct trial *trial)
{
    ok_init(trial);
    require(trial, exs_fini() == 0, "exs_fini failed");
    ok_init(trial);
    ended(trial);
}

static void fini_socket(struct trial *trial)
{
    ok_init(trial);
    int fd = ok_socket(trial);

    not_ended(trial);
    require(trial, exs_blocking_close(fd) == 0 && exs_fini() == 0, "it does not end without the socket");
}

static void fini_queue(struct trial *trial)
{
    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    not_ended(trial);
    require(trial, exs_qdelete(queue) == 0 && exs_fini() == 0, "it does not end without the queue");
}

static void fini_region(struct trial *trial)
{
    ok_init(trial);
    exs_mhandle_t region = ok_mregister(trial, trial->buffer, BUFSIZE, 0);

    not_ended(trial);
    require(trial, exs_mderegister(region, 0) == 0 && exs_fini() == 0, "it does not end without the region");
}

static void fini_forked(struct trial *trial)
{
    ok_init(trial);
    in_child(trial);
    outcome(trial, exs_fini());
}

static const struct row fini_rows[] = {
    {1, EPERM, "exs_fini() [no exs_init]", BOTH, OURS, fini_uninitialized, NULL},
    {2, 0, "exs_fini()", BOTH, OURS, fini, NULL},
    {3, EPERM, "exs_fini() [exs_fini already]", BOTH, OURS, fini_twice, NULL},
    {4, 0, "exs_fini() [exs_init twice, a socket open]", BOTH, OURS, fini_counted,
     "The second exs_init counts, too."},
    {5, 0, "exs_fini() [another exs_init failed with ENOTSUP]", BOTH, OURS, fini_refused_init, NULL},
    {6, 0, "exs_fini() [exs_init after another exs_fini]", BOTH, OURS, fini_init, NULL},
    {7, EBUSY, "exs_fini() [a socket open]", BOTH, OURS, fini_socket, NULL},
    {8, EBUSY, "exs_fini() [a queue not deleted]", BOTH, OURS, fini_queue, NULL},
    {9, EBUSY, "exs_fini() [a region not deregistered]", BOTH, OURS, fini_region, NULL},
    {10, ECHILD, "exs_fini() [in a forked child]", BOTH, OURS, fini_forked, NULL},
};
static const char *const fini_needs[] = {"exs_init", NULL};
const struct group group_fini = {"exs_fini", NULL, fini_needs, ROWS(fini_rows)};

/* ---- exs_socket ------------------------------------------------------------------------------------------ */

/* One body for all combinations of family, type and protocol. The row's number selects them. */
struct kind {
    int family, type, protocol;
};

static const struct kind refused[] = {
    [2] = {PF_UNSPEC, SOCK_STREAM, 0},
    [3] = {PF_UNIX, SOCK_STREAM, 0},
    [4] = {PF_NETLINK, SOCK_STREAM, 0},
    [5] = {-1, SOCK_STREAM, 0},
    [6] = {PF_UNIX, SOCK_SEQPACKET, 0},
    [7] = {PF_INET, SOCK_DGRAM, 0},
    [8] = {PF_INET, SOCK_RAW, 0},
    [9] = {PF_INET, SOCK_RDM, 0},
    [10] = {PF_INET, 0, 0},
    [11] = {PF_INET6, SOCK_DGRAM, 0},
    [12] = {PF_INET, SOCK_STREAM, IPPROTO_UDP},
    [13] = {PF_INET6, SOCK_STREAM, IPPROTO_UDP},
    [14] = {PF_INET, SOCK_SEQPACKET, IPPROTO_TCP},
    [15] = {PF_INET, SOCK_STREAM, -1},
    [22] = {PF_INET, SOCK_NONBLOCK | SOCK_CLOEXEC, 0},
    [23] = {PF_INET, SOCK_STREAM | 0x100, 0},
    [24] = {PF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0},
};
/* Families, types and protocols that row 5 tries in addition. */
static const struct kind unknown[] = {
    {PF_PACKET, SOCK_STREAM, 0},
    {9999, SOCK_STREAM, 0},
    {PF_INET, -1, 0},
    {PF_INET, 9999, 0},
    {PF_INET6, SOCK_STREAM, -1},
    {PF_INET6, SOCK_STREAM, IPPROTO_ICMP},
    {PF_INET6, SOCK_STREAM, 9999},
};

static void socket_uninitialized(struct trial *trial)
{
    outcome(trial, exs_socket(PF_INET, SOCK_STREAM, IPPROTO_TCP));
}

static void socket_refused(struct trial *trial)
{
    const struct kind *kind = &refused[trial->row->number];

    ok_init(trial);
    outcome(trial, exs_socket(kind->family, kind->type, kind->protocol));
    for (size_t i = 0; trial->row->number == 5 && i < sizeof(unknown) / sizeof(*unknown); i++)
        outcome(trial, exs_socket(unknown[i].family, unknown[i].type, unknown[i].protocol));
}

static void socket_made(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_socket(PF_INET, SOCK_STREAM, IPPROTO_TCP));
}

static void socket_kinds(struct trial *trial)
{
    ok_init(trial);
    int four = exs_socket(PF_INET, SOCK_SEQPACKET, 0);
    int six = exs_socket(PF_INET6, SOCK_STREAM, 0);
    int last = exs_socket(PF_INET6, SOCK_SEQPACKET, 0);

    outcome(trial, four < 0 || six < 0 ? -1 : last);
    require(trial, four != six && six != last && four != last, "two sockets have the same number");
}

static void socket_flags(struct trial *trial)
{
    static const int flags[] = {0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK};
    int fd = -1;

    ok_init(trial);
    for (int i = 0; i < 8; i++) {
        int type = i < 4 ? SOCK_STREAM : SOCK_SEQPACKET, held = 0;

        fd = exs_socket(PF_INET, type | flags[i % 4], 0);
        require(trial, fd >= 0, "a flag is refused");
        require(trial,
                exs_getsockopt(fd, SOL_SOCKET, SO_TYPE, &held, &(socklen_t){sizeof(held)}) == 0 && held == type,
                "a flag is taken for a part of the type");
        require(trial, exs_fcntl(fd, F_GETFD) == FD_CLOEXEC, "it is not closed at exec");
        require(trial, exs_fcntl(fd, F_GETFL) == (O_RDWR | (i % 4 >= 2 ? O_NONBLOCK : 0)),
                "O_NONBLOCK is not as it was asked for");
    }
    outcome(trial, fd);
}

static void socket_refused_first(struct trial *trial)
{
    outcome(trial, exs_socket(-1, -1, -1));
}

static void socket_forked(struct trial *trial)
{
    ok_init(trial);
    in_child(trial);
    outcome(trial, exs_socket(PF_INET, SOCK_STREAM, 0));
}

static void socket_no_descriptor(struct trial *trial)
{
    ok_init(trial);
    use_up_descriptors(trial);
    outcome(trial, exs_socket(PF_INET, SOCK_STREAM, 0));
}

#define REFUSED_OURS(number, kind)                                                                             \
    {                                                                                                          \
        number, EAFNOSUPPORT, "exs_socket(" kind ")", BOTH, OURS, socket_refused, NULL                         \
    }
#define REFUSED(number, kind)                                                                                  \
    {                                                                                                          \
        number, EAFNOSUPPORT, "exs_socket(" kind ")", BOTH, THESIS, socket_refused, NULL                       \
    }

static const struct row socket_rows[] = {
    {1, EPERM, "exs_socket(PF_INET, SOCK_STREAM, IPPROTO_TCP) [no exs_init]", BOTH, THESIS,
     socket_uninitialized, NULL},
    {2, EAFNOSUPPORT, "exs_socket(PF_UNSPEC, SOCK_STREAM, 0)", BOTH, THESIS, socket_refused,
     "The thesis gives this errno for tests 2 to 15 alike and names no arguments; which kinds they are is "
     "ours."},
    REFUSED(3, "PF_UNIX, SOCK_STREAM, 0"),
    REFUSED(4, "PF_NETLINK, SOCK_STREAM, 0"),
    REFUSED(5, "-1, SOCK_STREAM, 0"),
    REFUSED(6, "PF_UNIX, SOCK_SEQPACKET, 0"),
    REFUSED(7, "PF_INET, SOCK_DGRAM, 0"),
    REFUSED(8, "PF_INET, SOCK_RAW, 0"),
    REFUSED(9, "PF_INET, SOCK_RDM, 0"),
    REFUSED(10, "PF_INET, 0, 0"),
    REFUSED(11, "PF_INET6, SOCK_DGRAM, 0"),
    REFUSED(12, "PF_INET, SOCK_STREAM, IPPROTO_UDP"),
    REFUSED(13, "PF_INET6, SOCK_STREAM, IPPROTO_UDP"),
    REFUSED(14, "PF_INET, SOCK_SEQPACKET, IPPROTO_TCP"),
    REFUSED(15, "PF_INET, SOCK_STREAM, -1"),
    {16, 0, "exs_socket(PF_INET, SOCK_STREAM, IPPROTO_TCP)", BOTH, THESIS, socket_made, NULL},
    {17, 0, "exs_socket(PF_INET or PF_INET6, SOCK_SEQPACKET or SOCK_STREAM, 0)", BOTH, OURS, socket_kinds,
     NULL},
    {18, EPERM, "exs_socket(-1, -1, -1) [no exs_init]", BOTH, OURS, socket_refused_first,
     "EPERM comes before every other error."},
    {19, ECHILD, "exs_socket(PF_INET, SOCK_STREAM, 0) [in a forked child]", BOTH, OURS, socket_forked, NULL},
    {20, EMFILE, "exs_socket(PF_INET, SOCK_STREAM, 0) [no descriptor left]", BOTH, OURS, socket_no_descriptor,
     NULL},
    {21, 0, "exs_socket(PF_INET, SOCK_STREAM or SOCK_SEQPACKET, with SOCK_CLOEXEC, SOCK_NONBLOCK, both, none)",
     BOTH, OURS, socket_flags, NULL},
    REFUSED_OURS(22, "PF_INET, SOCK_NONBLOCK | SOCK_CLOEXEC, 0"),
    REFUSED_OURS(23, "PF_INET, SOCK_STREAM | 0x100, 0"),
    REFUSED_OURS(24, "PF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0"),
};
static const char *const socket_needs[] = {"exs_init", NULL};
const struct group group_socket = {"exs_socket", "5.3.11", socket_needs, ROWS(socket_rows)};
