/* SPDX-License-Identifier: BSD-2-Clause */
/* element.c - checks and opens elements of file vectors. See element.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "core/base/fds.h"
#include "core/base/log.h"
#include "core/memory/memory.h"
#include "element.h"

struct range { /* part of a file, as the application specified it */
    off_t offset;
    size_t length;
};

/* ---- Opening --------------------------------------------------------------------------------------- */

static int try_open(const char *path, int how)
{
    int fd;

    do { /* a user-space file system (FUSE) makes open() wait, and a signal interrupts that */
        fd = open(path, how | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* A file that is to be written need not be readable, so try without read access, too. */
static int open_for(const char *path, enum purpose purpose, int create)
{
    int fd = try_open(path, purpose == TO_SEND ? O_RDONLY : O_RDWR | create);

    return fd < 0 && errno == EACCES && purpose == TO_FILL ? try_open(path, O_WRONLY) : fd;
}

/* Only regular files can be mapped. */
static int check_kind(const exs_xferfile_t *from, mode_t mode)
{
    if (S_ISREG(mode))
        return 0;
    return xs_fails(S_ISDIR(mode) && from->exs_xfv_type == EXS_PATHVEC ? EISDIR : ENODEV);
}

/* Open the file that the O_PATH descriptor `named` refers to. Without /proc, open the path once more;
 * xs_element_open() checks the kind of the file in any case. */
static int open_found(int named, const char *path, enum purpose purpose)
{
    char link[64];
    int fd;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", named);
    fd = open_for(link, purpose, 0);
    return fd < 0 && errno == ENOENT ? open_for(path, purpose, 0) : fd;
}

/* Called after the file was opened, so that a fork need not wait for open(), which may take long. */
static int own_file(int fd)
{
    return fds_own_private(fd);
}

/* To open a FIFO or a device has effects: a process that waits for the other end of a FIFO continues, a tape
 * rewinds, a watchdog starts. Therefore the kind of the file is checked first, on an O_PATH descriptor. */
static int open_path(const exs_xferfile_t *from, enum purpose purpose)
{
    const char *path = from->exs_xfv.exs_pathv.exs_path;
    struct stat status;
    int fd = -1;

    if (path == NULL || *path == 0)
        return xs_invalid("exs_path is %s", path == NULL ? "NULL" : "empty");
    int named = own_file(try_open(path, O_PATH));

    if (named < 0)
        return errno == ENOENT && purpose == TO_FILL ? own_file(open_for(path, purpose, O_CREAT)) : -1;
    if (fstat(named, &status) == 0 && check_kind(from, status.st_mode) == 0)
        fd = open_found(named, path, purpose);
    int saved = errno;

    fds_close(named);
    errno = saved;
    return own_file(fd);
}

static int copy_fd(int fd)
{
    int copy = fds_own_private(fcntl(fd, F_DUPFD_CLOEXEC, 0));

    return copy < 0 && errno == EBADF ? xs_invalid("exs_fildes %d is not open", fd) : copy;
}

/* ---- Ranges ---------------------------------------------------------------------------------------- */

static int to_send(struct element *element, const struct range *range, uint64_t size)
{
    int how = fcntl(element->fd, F_GETFL), access = how & O_ACCMODE;

    if (how & O_PATH || (access != O_RDONLY && access != O_RDWR))
        return xs_fails(EACCES);
    if (range->offset < 0 || (uint64_t)range->offset > size || range->length > size - (uint64_t)range->offset)
        return xs_invalid("exs_offset %lld with exs_length %zu is not within the file's %llu bytes",
                          (long long)range->offset, range->length, (unsigned long long)size);
    element->is_readable = !(how & O_DIRECT);
    element->length = range->length != 0 ? range->length : size - (uint64_t)range->offset;
    return 0;
}

/* A file that is to be filled may be shorter than the range. O_APPEND does not allow writing at an offset, and
 * O_DIRECT accepts only whole blocks, so both are refused. */
static int to_fill(struct element *element, const struct range *range, int flags)
{
    int how = fcntl(element->fd, F_GETFL), access = how & O_ACCMODE;

    if (how & O_PATH || (access != O_WRONLY && access != O_RDWR))
        return xs_fails(EACCES);
    if (how & (O_APPEND | O_DIRECT))
        return xs_invalid("exs_fildes is open with %s", how & O_APPEND ? "O_APPEND" : "O_DIRECT");
    if (range->offset < 0 || range->length > (uint64_t)INT64_MAX - (uint64_t)range->offset)
        return xs_invalid("exs_offset %lld with exs_length %zu is not a range", (long long)range->offset,
                          range->length);
    uint64_t most = (uint64_t)INT64_MAX - (uint64_t)range->offset;

    if (most > EXS_FILE_MAX && !(flags & EXS_BIGFILE))
        most = EXS_FILE_MAX;
    element->is_mappable = access == O_RDWR;
    element->is_open_ended = range->length == 0;
    element->length = element->is_open_ended ? most : range->length;
    return 0;
}

/* Check the range of a file whose descriptor is open. */
static int check_range(struct element *element, const exs_xferfile_t *from, const struct range *range,
                       enum purpose purpose, int flags)
{
    struct stat status;

    /* The descriptor is open: if fstat() fails, the file system is at fault. */
    if (fstat(element->fd, &status) < 0 || check_kind(from, status.st_mode) < 0)
        return -1;
    if ((purpose == TO_SEND ? to_send(element, range, (uint64_t)status.st_size)
                            : to_fill(element, range, flags)) < 0)
        return -1;
    element->offset = (uint64_t)range->offset;
    return element->length > EXS_FILE_MAX && !(flags & EXS_BIGFILE) ? xs_fails(EFBIG) : 0;
}

/* ---- Elements -------------------------------------------------------------------------------------- */

static int use_memory(struct element *element, const exs_iovec_t *from, enum purpose purpose)
{
    int forbidden = purpose == TO_SEND ? EXS_MRF_SEND_DISABLE : EXS_MRF_RECV_DISABLE;

    element->flags = from->exs_flags;
    element->base = from->exs_base;
    element->length = from->exs_length;
    if (element->base == NULL)
        return xs_invalid("exs_base is NULL");
    if (element->length > EXS_MSG_MAX)
        return xs_too_long(element->length);
    return xs_memory_use(from->exs_mhandle, element->base, element->length, forbidden, &element->memory);
}

static int use_fd(struct element *element, const exs_xferfile_t *from, enum purpose purpose, int flags)
{
    const exs_fdvec_t *file = &from->exs_xfv.exs_fdv;

    element->flags = file->exs_flags;
    element->fd = copy_fd(file->exs_fildes);
    if (element->fd < 0)
        return -1;
    return check_range(element, from, &(struct range){file->exs_offset, file->exs_length}, purpose, flags);
}

static int use_path(struct element *element, const exs_xferfile_t *from, enum purpose purpose, int flags)
{
    const exs_pathvec_t *file = &from->exs_xfv.exs_pathv;

    element->flags = file->exs_flags;
    element->fd = open_path(from, purpose);
    if (element->fd < 0)
        return -1;
    return check_range(element, from, &(struct range){file->exs_offset, file->exs_length}, purpose, flags);
}

/* Log which element failed; xs_invalid() has logged EINVAL already. */
static void say_failed(const exs_xferfile_t *from)
{
    int error = errno;

    if (error != EINVAL && from->exs_xfv_type == EXS_PATHVEC)
        xs_explain(error, "%s: %s", from->exs_xfv.exs_pathv.exs_path, strerror(error));
    else if (error != EINVAL && from->exs_xfv_type == EXS_FDVEC)
        xs_explain(error, "exs_fildes %d: %s", from->exs_xfv.exs_fdv.exs_fildes, strerror(error));
    errno = error;
}

int xs_element_open(struct element *element, const exs_xferfile_t *from, enum purpose purpose, int flags)
{
    int result = -1, known = purpose == TO_SEND ? EXS_SHUT_WR : 0;

    *element = (struct element){.fd = -1};
    switch (from->exs_xfv_type) {
    case EXS_FDVEC:
        result = use_fd(element, from, purpose, flags);
        break;
    case EXS_PATHVEC:
        result = use_path(element, from, purpose, flags);
        break;
    case EXS_IOVEC:
        result = use_memory(element, &from->exs_xfv.exs_iov, purpose);
        break;
    default:
        xs_invalid("invalid exs_xfv_type %d", from->exs_xfv_type);
    }
    if (result < 0)
        say_failed(from);
    return result == 0 && element->flags & ~known ? xs_bad_flags(element->flags, known) : result;
}

void xs_element_close(struct element *element)
{
    if (element->fd >= 0)
        fds_close(element->fd);
    if (element->memory != NULL)
        xs_memory_unuse(element->memory);
    element->fd = -1;
    element->memory = NULL;
}
