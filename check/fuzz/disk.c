/* SPDX-License-Identifier: BSD-2-Clause */
/* disk.c - see disk.h. */
#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "check/fuzz/disk.h"

#define HALF (-1) /* instead of an errno: HALF: one byte is transferred; END: the file has ended */
#define END (-2)

static struct {
    int error, after;
    bool paused, failed;
} disk;

void disk_will_fail(struct input *input)
{
    static const int errors[] = {EIO,   ENOSPC, EINTR,  HALF,   END,   EACCES, EMFILE, EDQUOT,
                                 EPERM, ENOENT, EISDIR, EEXIST, ENXIO, ELOOP,  ENOLCK, EROFS};
    uint8_t choice = input_u8(input);

    disk.error = errors[choice & 15];
    disk.after = choice >> 4;
    disk.failed = false;
}

bool disk_has_failed(void)
{
    return disk.failed;
}

void disk_mend(void)
{
    disk.error = 0;
    disk.failed = false;
}

void disk_pause(bool paused)
{
    disk.paused = paused;
}

/* Returns whether this call fails; *error and errno then say how. */
static bool fails(int *error)
{
    if (disk.error == 0 || disk.paused || disk.after-- > 0)
        return false;
    *error = disk.error;
    disk.error = 0;
    disk.failed = true;
    errno = *error > 0 ? *error : EIO;
    return true;
}

#define WRAP(type, name, parameters, arguments)                                                                \
    type __real_##name parameters;                                                                             \
    type __wrap_##name parameters;                                                                             \
    type __wrap_##name parameters                                                                              \
    {                                                                                                          \
        int error;                                                                                             \
                                                                                                               \
        return fails(&error) ? -1 : __real_##name arguments;                                                   \
    }

/* Calls that transfer bytes may also transfer fewer. */
#define WRAP_MOVE(name, pointer)                                                                               \
    ssize_t __real_##name(int fd, pointer data, size_t length, off_t offset);                                  \
    ssize_t __wrap_##name(int fd, pointer data, size_t length, off_t offset);                                  \
    ssize_t __wrap_##name(int fd, pointer data, size_t length, off_t offset)                                   \
    {                                                                                                          \
        int error = 0;                                                                                         \
                                                                                                               \
        if (!fails(&error) || error == HALF)                                                                   \
            return __real_##name(fd, data, error == HALF && length > 0 ? 1 : length, offset);                  \
        return error == END && IS_##name ? 0 : -1;                                                             \
    }

#define IS_pread 1
#define IS_pwrite 0

WRAP_MOVE(pread, void *)
WRAP_MOVE(pwrite, const void *)
WRAP(int, openat, (int in, const char *path, int flags, mode_t mode), (in, path, flags, mode))
WRAP(int, fstat, (int fd, struct stat *status), (fd, status))
WRAP(int, fstatat, (int in, const char *path, struct stat *status, int flags), (in, path, status, flags))
WRAP(int, ftruncate, (int fd, off_t length), (fd, length))
WRAP(int, mkdirat, (int in, const char *path, mode_t mode), (in, path, mode))
WRAP(int, renameat, (int in, const char *path, int to, const char *name), (in, path, to, name))
WRAP(int, flock, (int fd, int operation), (fd, operation))

/* Does not wait for the disk. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    int error;

    (void)fd;
    return fails(&error) ? -1 : 0;
}
