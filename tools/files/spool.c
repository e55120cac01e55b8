/* SPDX-License-Identifier: BSD-2-Clause */
/* spool.c - copies a stream to an unnamed file; see spool.h. */
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 64 << 10 }; /* bytes */

int spool_hides_bytes(int fd)
{
    char byte;

    return (int)pread(fd, &byte, 1, 0);
}

static bool is_file_at_its_beginning(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && lseek(fd, 0, SEEK_CUR) == 0 &&
           (status.st_size > 0 || spool_hides_bytes(fd) == 0);
}

static int write_all(int fd, const char *bytes, ssize_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, (size_t)length);

        if (written == -1 && errno == EINTR)
            continue;
        if (written == -1)
            return -1;
        bytes += written;
        length -= written;
    }
    return 0;
}

static int copy_all(int from, int to)
{
    char chunk[CHUNK];

    for (;;) {
        ssize_t got = read(from, chunk, sizeof(chunk));

        if (got == 0)
            return 0;
        if (got == -1 && errno == EINTR)
            continue;
        if (got == -1 || write_all(to, chunk, got) == -1)
            return -1;
    }
}

static int open_nameless(const char *folder)
{
    return open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
}

int spool_copy(int from)
{
    const char *folder = getenv("TMPDIR");
    int fd = open_nameless(folder == NULL || folder[0] == '\0' ? "/tmp" : folder);

    if (fd == -1 || copy_all(from, fd) == 0)
        return fd;
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

int spool_open(void)
{
    if (is_file_at_its_beginning(STDIN_FILENO))
        return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return spool_copy(STDIN_FILENO);
}
