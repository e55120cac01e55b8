/* SPDX-License-Identifier: BSD-2-Clause */
/* files.c - see files.h. */
#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/inotify.h>
#include <sys/stat.h>

exs_xferfile_t by_fd(int fd, off_t offset, size_t length)
{
    exs_xferfile_t element = {.exs_xfv_type = EXS_FDVEC};

    element.exs_xfv.exs_fdv = (exs_fdvec_t){.exs_fildes = fd, .exs_offset = offset, .exs_length = length};
    return element;
}

exs_xferfile_t by_path(const char *path, off_t offset, size_t length)
{
    exs_xferfile_t element = {.exs_xfv_type = EXS_PATHVEC};

    element.exs_xfv.exs_pathv =
        (exs_pathvec_t){.exs_path = (char *)path, .exs_offset = offset, .exs_length = length};
    return element;
}

exs_xferfile_t by_memory(void *base, size_t length, exs_mhandle_t region)
{
    exs_xferfile_t element = {.exs_xfv_type = EXS_IOVEC};

    element.exs_xfv.exs_iov = (exs_iovec_t){.exs_base = base, .exs_length = length, .exs_mhandle = region};
    return element;
}

/* ---- The directory --------------------------------------------------------------------- */

void folder_make(struct folder *folder)
{
    const char *where = getenv("TMPDIR");

    snprintf(folder->path, sizeof folder->path, "%s/exs-check-XXXXXX",
             where && strlen(where) < 50 ? where : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder->path));
}

void folder_clear(struct folder *folder)
{
    DIR *entries = opendir(folder->path);
    const struct dirent *entry;

    ck_assert_ptr_nonnull(entries);
    while ((entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] != '.')
            must(unlinkat(dirfd(entries), entry->d_name, 0));
    }
    closedir(entries);
    must(rmdir(folder->path));
}

const char *folder_path(const struct folder *folder, const char *name)
{
    static char path[200];

    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return path;
}

int folder_file(const struct folder *folder, const char *name, off_t length)
{
    int fd = open(folder_path(folder, name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must(fd);
    must(ftruncate(fd, length));
    return fd;
}

/* ---- Contents of a file ---------------------------------------------------------------- */

#define PART (256 * KIB)

int file_watch_opens(const char *path)
{
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    must(watch);
    must(inotify_add_watch(watch, path, IN_OPEN));
    return watch;
}

bool file_was_opened(int watch)
{
    char events[sizeof(struct inotify_event) + NAME_MAX + 1];
    ssize_t length = read(watch, events, sizeof(events));

    ck_assert(length > 0 || errno == EAGAIN);
    return length > 0;
}

void file_fill(int fd, off_t offset, size_t length, unsigned char value)
{
    uint8_t *bytes = malloc(length);

    ck_assert_ptr_nonnull(bytes);
    memset(bytes, value, length);
    ck_assert_int_eq(pwrite(fd, bytes, length, offset), length);
    free(bytes);
}

void file_has_length(int fd, off_t length)
{
    struct stat status;

    must(fstat(fd, &status));
    ck_assert_int_eq(status.st_size, length);
}

/* Reads the next bytes, at most PART. Returns how many. */
static size_t read_part(int fd, uint8_t *bytes, off_t offset, size_t length)
{
    size_t wanted = length < PART ? length : PART;

    ck_assert_int_eq(pread(fd, bytes, wanted, offset), wanted);
    return wanted;
}

void file_has_pattern(int fd, off_t offset, size_t length, uint64_t seed, uint64_t at)
{
    uint8_t *bytes = new_buffer(PART);

    for (size_t done = 0, part; done < length; done += part) {
        part = read_part(fd, bytes, offset + (off_t)done, length - done);
        pattern_check(bytes, part, seed, at + done);
    }
    free(bytes);
}

void file_has_value(int fd, off_t offset, size_t length, unsigned char value)
{
    uint8_t *bytes = new_buffer(PART);

    for (size_t done = 0, part; done < length; done += part) {
        part = read_part(fd, bytes, offset + (off_t)done, length - done);
        same_bytes(bytes, part, value);
    }
    free(bytes);
}
