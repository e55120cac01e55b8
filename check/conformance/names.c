/* SPDX-License-Identifier: BSD-2-Clause */
/* names.c - tests of exs_getsockname, exs_getpeername, exs_getdevice and exs_fcntl. */
#include <fcntl.h>
#include "bodies.h"

static const char *const names_need[] = {"exs_init",   "exs_socket",  "exs_bind",
                                         "exs_listen", "exs_connect", NULL};

/* ---- Common functions ----------------------------------------------------------------------------------- */

/* Makes the call of the row with this socket and otherwise correct arguments. */
static void ask(struct trial *trial, int fd)
{
    const char *function = trial->group->function;
    struct address address = {.length = sizeof(address.storage)};
    char name[64];

    if (strcmp(function, "exs_getsockname") == 0)
        outcome(trial, exs_getsockname(fd, (struct sockaddr *)&address.storage, &address.length));
    else if (strcmp(function, "exs_getpeername") == 0)
        outcome(trial, exs_getpeername(fd, (struct sockaddr *)&address.storage, &address.length));
    else if (strcmp(function, "exs_getdevice") == 0)
        outcome(trial, exs_getdevice(fd, name, sizeof(name)));
    else
        outcome(trial, exs_fcntl(fd, F_GETFL));
}

static void uninitialized(struct trial *trial)
{
    ask(trial, 0);
}

static void forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    ask(trial, trial->fd);
}

static void bad_fd(struct trial *trial)
{
    ok_connected(trial);
    ask(trial, BAD_FD);
    ask(trial, UNUSED_FD);
}

static void foreign(struct trial *trial)
{
    ok_connected(trial);
    ask(trial, foreign_fd(trial));
}

static void closed(struct trial *trial)
{
    ok_fresh(trial);
    require(trial, exs_blocking_close(trial->fd) == 0, "exs_close failed");
    ask(trial, trial->fd);
}

static void fresh(struct trial *trial)
{
    ok_fresh(trial);
    ask(trial, trial->fd);
    ok_bind(trial, trial->fd, "0");
    ask(trial, trial->fd);
}

static void listening(struct trial *trial)
{
    ok_listening(trial);
    ask(trial, trial->fd);
}

/* ---- exs_getsockname, exs_getpeername ------------------------------------------------------------------- */

static int get_name(struct trial *trial, void *address, socklen_t *length)
{
    bool peer = strcmp(trial->group->function, "exs_getpeername") == 0;

    return (peer ? exs_getpeername : exs_getsockname)(trial->fd, address, length);
}

static void nowhere(struct trial *trial)
{
    socklen_t length = sizeof(struct sockaddr_storage);

    ok_connected(trial);
    outcome(trial, get_name(trial, NULL, &length));
    outcome(trial, get_name(trial, NULL, NULL));
}

static void no_length(struct trial *trial)
{
    struct address address;

    ok_connected(trial);
    outcome(trial, get_name(trial, &address.storage, NULL));
}

/* Gets the address with a buffer that is large enough. */
static struct address named(struct trial *trial)
{
    struct address address = {.length = sizeof(address.storage)};

    outcome(trial, get_name(trial, &address.storage, &address.length));
    require(trial,
            address.length == (address.storage.ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                                                    : sizeof(struct sockaddr_in6)),
            "the address has another length than its family's");
    return address;
}

static void unbound(struct trial *trial)
{
    struct address wildcard = {0}, address;

    ok_fresh(trial);
    resolve(trial, "0", &wildcard);
    address = named(trial);
    wildcard.storage = (struct sockaddr_storage){.ss_family = wildcard.storage.ss_family};
    require(trial, memcmp(&address.storage, &wildcard.storage, address.length) == 0,
            "it is not the wildcard address and port 0");
}

static void bound(struct trial *trial)
{
    struct address wanted, address;

    ok_fresh(trial);
    ok_bind(trial, trial->fd, "0");
    resolve(trial, "0", &wanted);
    address = named(trial);
    require(trial, *port_of(&address) != 0, "it has port 0");
    *port_of(&wanted) = *port_of(&address);
    require(trial, memcmp(&address.storage, &wanted.storage, address.length) == 0, "it is another address");
}

/* The local address of one end is the peer's address of the other. */
static void accepted(struct trial *trial)
{
    struct address address;

    ok_accepted(trial);
    address = named(trial);
    if (strcmp(trial->group->function, "exs_getsockname") == 0)
        require(trial, *port_of(&address) == *port_of(&trial->server),
                "it is another port than the listener's");
    else
        require(trial, *port_of(&address) != 0 && *port_of(&address) != *port_of(&trial->server),
                "the peer has no port of its own");
}

static void connected(struct trial *trial)
{
    struct address address;

    ok_connected(trial);
    address = named(trial);
    if (strcmp(trial->group->function, "exs_getpeername") == 0)
        require(trial, memcmp(&address.storage, &trial->server.storage, address.length) == 0,
                "the peer is not where it was connected to");
    else
        require(trial, *port_of(&address) != 0, "it has port 0");
}

/* The buffer is too short: it contains the bytes that fit, and the length is that of the whole address. */
static void cut_off(struct trial *trial)
{
    struct address whole = {.length = sizeof(whole.storage)}, part;
    socklen_t size = sizeof(sa_family_t) + 2, length = size;

    ok_connected(trial);
    require(trial, get_name(trial, &whole.storage, &whole.length) == 0, "the call before failed");
    memset(&part.storage, 0xa5, sizeof(part.storage));
    outcome(trial, get_name(trial, &part.storage, &length));
    require(trial, length == whole.length, "the length is not the whole one's");
    require(trial, memcmp(&part.storage, &whole.storage, size) == 0, "what fits is another address's");
    require(trial, ((unsigned char *)&part.storage)[size] == 0xa5, "more was written than fits");
}

/* clang-format off */
#define NAME_ROWS(function) \
    {1, EPERM, function "(fd, address, &length) [no exs_init]", BOTH, OURS, uninitialized, NULL}, \
    {2, ECHILD, function "(fd, address, &length) [in a forked child]", BOTH, OURS, forked, NULL}, \
    {3, EBADF, function "(BAD_FD, address, &length)", BOTH, OURS, bad_fd, NULL}, \
    {4, EBADF, function "(FD_OF_A_FILE, address, &length)", BOTH, OURS, foreign, NULL}, \
    {5, EBADF, function "(CLOSED_FD, address, &length)", BOTH, OURS, closed, NULL}, \
    {6, EFAULT, function "(fd, NULL, &length)", BOTH, OURS, nowhere, NULL}, \
    {7, EFAULT, function "(fd, address, NULL)", BOTH, OURS, no_length, NULL}, \
    {8, 0, function "(CONNECTED_FD, address, &length)", BOTH, OURS, connected, NULL}, \
    {9, 0, function "(ACCEPTED_FD, address, &length)", BOTH, OURS, accepted, NULL}, \
    {10, 0, function "(fd, address, &TOO_SHORT)", BOTH, OURS, cut_off, "As much as fits, and the whole length."}
/* clang-format on */
static const struct row sockname_rows[] = {
    NAME_ROWS("exs_getsockname"),
    {11, 0, "exs_getsockname(FRESH_FD, address, &length)", BOTH, OURS, unbound, "The wildcard, and port 0."},
    {12, 0, "exs_getsockname(BOUND_FD, address, &length)", BOTH, OURS, bound, NULL},
    {13, 0, "exs_getsockname(LISTENING_FD, address, &length)", BOTH, OURS, listening, NULL},
};
const struct group group_getsockname = {"exs_getsockname", NULL, names_need, ROWS(sockname_rows)};

static const struct row peername_rows[] = {
    NAME_ROWS("exs_getpeername"),
    {11, ENOTCONN, "exs_getpeername(FRESH_FD, address, &length)", BOTH, OURS, fresh, NULL},
    {12, ENOTCONN, "exs_getpeername(LISTENING_FD, address, &length)", BOTH, OURS, listening, NULL},
};
const struct group group_getpeername = {"exs_getpeername", NULL, names_need, ROWS(peername_rows)};

/* ---- exs_getdevice -------------------------------------------------------------------------------------- */

static void device_nowhere(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_getdevice(trial->fd, NULL, 64));
}

static void device_size_0(struct trial *trial)
{
    char name[64] = "?";

    ok_connected(trial);
    outcome(trial, exs_getdevice(trial->fd, name, 0));
    require(trial, strcmp(name, "?") == 0, "a call that failed has written");
}

/* A buffer for the name without its terminating 0, plus `more` bytes. */
static void device_fits(struct trial *trial, size_t more)
{
    char name[64], again[64];

    ok_connected(trial);
    require(trial, exs_getdevice(trial->fd, name, sizeof(name)) == 0, "the call before failed");
    memset(again, '?', sizeof(again));
    outcome(trial, exs_getdevice(trial->fd, again, strlen(name) + more));
    if (more == 0)
        outcome(trial, exs_getdevice(trial->fd, again, 1));
    require(trial, more > 0 ? strcmp(name, again) == 0 : again[0] == '?', "another name was written");
}

static void device_just(struct trial *trial)
{
    device_fits(trial, 1);
}

static void device_too_long(struct trial *trial)
{
    device_fits(trial, 0);
}

/* A listener's devices are named as in EXS_DEVICE, separated by commas. */
static void device_listening(struct trial *trial)
{
    char kinds[64];

    ok_listening(trial);
    outcome(trial, exs_getdevice(trial->fd, kinds, sizeof(kinds)));
    require(trial, strcmp(kinds, "soft") == 0 || strcmp(kinds, "rdma") == 0 || strcmp(kinds, "rdma,soft") == 0,
            "these are no kinds of devices");
}

static const struct row device_rows[] = {
    {1, EPERM, "exs_getdevice(fd, name, size) [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, ECHILD, "exs_getdevice(fd, name, size) [in a forked child]", BOTH, OURS, forked, NULL},
    {3, EBADF, "exs_getdevice(BAD_FD, name, size)", BOTH, OURS, bad_fd, NULL},
    {4, EBADF, "exs_getdevice(FD_OF_A_FILE, name, size)", BOTH, OURS, foreign, NULL},
    {5, EBADF, "exs_getdevice(CLOSED_FD, name, size)", BOTH, OURS, closed, NULL},
    {6, ENOTCONN, "exs_getdevice(NOT_CONNECTED_FD, name, size)", BOTH, OURS, fresh, NULL},
    {7, EFAULT, "exs_getdevice(fd, NULL, size)", BOTH, OURS, device_nowhere, NULL},
    {8, EINVAL, "exs_getdevice(fd, name, 0)", BOTH, OURS, device_size_0, NULL},
    {9, ENAMETOOLONG, "exs_getdevice(fd, name, ITS_LENGTH)", BOTH, OURS, device_too_long, NULL},
    {10, 0, "exs_getdevice(fd, name, ITS_LENGTH + 1)", BOTH, OURS, device_just, NULL},
    {11, 0, "exs_getdevice(LISTENING_FD, name, size)", BOTH, OURS, device_listening, NULL},
};
const struct group group_getdevice = {"exs_getdevice", NULL, names_need, ROWS(device_rows)};

/* ---- exs_fcntl ------------------------------------------------------------------------------------------ */

static void with_command(struct trial *trial, int command, int argument)
{
    ok_connected(trial);
    outcome(trial, exs_fcntl(trial->fd, command, argument));
}

static void command_bad(struct trial *trial)
{
    with_command(trial, -1, 0);
}

static void command_dup(struct trial *trial)
{
    with_command(trial, F_DUPFD, 0);
}

static void command_lock(struct trial *trial)
{
    with_command(trial, F_SETOWN, 1);
}

/* Checks the result of F_GETFL after F_SETFL. */
static void flags_are(struct trial *trial, int set, int then)
{
    ok_connected(trial);
    outcome(trial, exs_fcntl(trial->fd, F_SETFL, set));
    require(trial, exs_fcntl(trial->fd, F_GETFL) == then, "F_GETFL says something else");
}

static void set_nonblock(struct trial *trial)
{
    flags_are(trial, O_NONBLOCK, O_RDWR | O_NONBLOCK);
    require(trial, exs_fcntl(trial->fd, F_SETFL, 0) == 0 && exs_fcntl(trial->fd, F_GETFL) == O_RDWR,
            "it can't be taken back");
}

static void set_others(struct trial *trial)
{
    flags_are(trial, O_APPEND | O_WRONLY, O_RDWR);
}

static void get_flags(struct trial *trial)
{
    ok_fresh(trial);
    int flags = exs_fcntl(trial->fd, F_GETFL);

    outcome(trial, flags);
    require(trial, flags == O_RDWR, "it is not O_RDWR");
}

static void get_flags_nonblock(struct trial *trial)
{
    struct address address;

    ok_init(trial);
    resolve(trial, "0", &address);
    trial->fd = exs_socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int flags = exs_fcntl(trial->fd, F_GETFL);

    outcome(trial, flags);
    require(trial, flags == (O_RDWR | O_NONBLOCK), "it is not what the socket was made with");
}

static void close_on_exec(struct trial *trial)
{
    ok_fresh(trial);
    require(trial, exs_fcntl(trial->fd, F_GETFD) == FD_CLOEXEC, "a new socket does not have FD_CLOEXEC");
    outcome(trial, exs_fcntl(trial->fd, F_SETFD, 0));
    require(trial, exs_fcntl(trial->fd, F_GETFD) == 0 && fcntl(trial->fd, F_GETFD) == 0,
            "the descriptor has it still");
    require(trial, exs_fcntl(trial->fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(trial->fd, F_GETFD) == FD_CLOEXEC,
            "it can't be set again");
}

static const struct row fcntl_rows[] = {
    {1, EPERM, "exs_fcntl(fd, F_GETFL) [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, ECHILD, "exs_fcntl(fd, F_GETFL) [in a forked child]", BOTH, OURS, forked, NULL},
    {3, EBADF, "exs_fcntl(BAD_FD, F_GETFL)", BOTH, OURS, bad_fd, NULL},
    {4, EBADF, "exs_fcntl(FD_OF_A_FILE, F_GETFL)", BOTH, OURS, foreign, NULL},
    {5, EBADF, "exs_fcntl(CLOSED_FD, F_GETFL)", BOTH, OURS, closed, NULL},
    {6, EINVAL, "exs_fcntl(fd, -1, 0)", BOTH, OURS, command_bad, NULL},
    {7, EINVAL, "exs_fcntl(fd, F_DUPFD, 0)", BOTH, OURS, command_dup, NULL},
    {8, EINVAL, "exs_fcntl(fd, F_SETOWN, 1)", BOTH, OURS, command_lock, NULL},
    {9, 0, "exs_fcntl(fd, F_GETFL)", BOTH, OURS, get_flags, NULL},
    {10, 0, "exs_fcntl(FD_WITH_SOCK_NONBLOCK, F_GETFL)", BOTH, OURS, get_flags_nonblock, NULL},
    {11, 0, "exs_fcntl(fd, F_SETFL, O_NONBLOCK)", BOTH, OURS, set_nonblock, NULL},
    {12, 0, "exs_fcntl(fd, F_SETFL, O_APPEND | O_WRONLY)", BOTH, OURS, set_others, "Others are left alone."},
    {13, 0, "exs_fcntl(fd, F_SETFD, 0)", BOTH, OURS, close_on_exec, "Every new socket has FD_CLOEXEC."},
};
const struct group group_fcntl = {"exs_fcntl", NULL, names_need, ROWS(fcntl_rows)};
