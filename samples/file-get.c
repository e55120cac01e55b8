/* SPDX-License-Identifier: BSD-2-Clause */
/* Gets a file from file-server: sends its name, and receives its length and the file, which it stores under the same
 * name or as AS.
 *
 * Build: cc file-get.c $(pkg-config --cflags --libs exs). Run: file-get HOST PORT NAME [AS]. */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <endian.h>
#include <errno.h>
#include <exs.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Returns the bytes received, or -1 and sets *why to the reason. */
static ssize_t receive(int sock, const char *as, const char **why)
{
    uint64_t length;

    *why = "no answer";
    if (exs_blocking_recv(sock, &length, sizeof(length), MSG_WAITALL, NULL) != sizeof(length))
        return -1;
    length = be64toh(length);
    *why = "the server has no such file";
    if (length > INT64_MAX)
        return -1;
    int fd = open(as, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd == -1) {
        *why = strerror(errno);
        return -1;
    }
    exs_xferfile_t file = {.exs_xfv_type = EXS_FDVEC,
                           .exs_xfv.exs_fdv = {.exs_fildes = fd, .exs_length = length}};
    ssize_t got = length > 0 ? exs_blocking_recvfile(sock, &file, 1, EXS_BIGFILE) : 0;
    *why = "the file is not whole";
    return close(fd) == 0 && (uint64_t)got == length ? got : -1;
}

int main(int argc, char **argv)
{
    const char *why = "no connection";
    ssize_t got = -1;

    if (argc < 4) {
        fprintf(stderr, "usage: file-get HOST PORT NAME [AS]\n");
        return 2;
    }
    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (exs_blocking_connect_host(sock, argv[1], argv[2]) == -1)
        perror("file-get");
    else if (exs_write(sock, argv[3], strlen(argv[3])) != -1 && exs_write(sock, "\n", 1) == 1)
        got = receive(sock, argc > 4 ? argv[4] : argv[3], &why);
    if (got == -1)
        fprintf(stderr, "file-get: %s: %s\n", argv[3], why);
    else
        printf("%zd bytes\n", got);
    return exs_blocking_close(sock) == 0 && got != -1 ? 0 : 1;
}
