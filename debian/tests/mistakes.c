/* SPDX-License-Identifier: BSD-2-Clause */
/* Ten mistakes of a first hour. Prints the call that each is noticed by, and its errno's name. */
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void noticed(const char *call, int failed, int error, const char *name)
{
    if (!failed || errno != error) {
        fprintf(stderr, "%s: %s instead of %s\n", call, failed ? strerror(errno) : "success", name);
        exit(1);
    }
    printf("%s %s\n", call, name);
    fflush(stdout);
}

#define NOTICED(call, condition, error) (errno = 0, noticed(call, condition, error, #error))

int main(void)
{
    struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(1)};
    char text[] = "text";

    nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    NOTICED("exs_socket", exs_socket(PF_INET, SOCK_STREAM, 0) == -1, EPERM); /* before exs_init */
    NOTICED("exs_init", exs_init(17) == -1, ENOTSUP);
    if (exs_init(EXS_VERSION) == -1)
        return 1;
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    exs_qhandle_t queue = exs_qcreate(8);
    NOTICED("exs_send", exs_send(STDOUT_FILENO, text, 4, 0, queue, NULL, NULL) == -1, EBADF);
    NOTICED("exs_send", exs_send(sock, text, 4, 0, queue, NULL, NULL) == -1, ENOTCONN);
    NOTICED("exs_send", exs_send(sock, text, 4, 0x10, queue, NULL, NULL) == -1, EOPNOTSUPP);
    NOTICED("exs_socket", exs_socket(PF_UNIX, SOCK_STREAM, 0) == -1, EAFNOSUPPORT);
    NOTICED("exs_qcreate", exs_qcreate(-1) == EXS_QHANDLE_INVALID, EINVAL);
    NOTICED("exs_blocking_connect",
            exs_blocking_connect(sock, (struct sockaddr *)&nobody, sizeof(nobody)) == -1, ECONNREFUSED);
    NOTICED("exs_connect_host", exs_blocking_connect_host(sock, "127.0.0.1", "no such service") == -1, EINVAL);
    int status = 0;
    if (fork() == 0) {
        NOTICED("exs_socket", exs_socket(PF_INET, SOCK_STREAM, 0) == -1, ECHILD); /* after a fork */
        _exit(0);
    }
    return wait(&status) != -1 && status == 0 ? 0 : 1;
}
