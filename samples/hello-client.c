/* SPDX-License-Identifier: BSD-2-Clause */
/* A client with blocking calls: connect, send, receive, close. Build: cc hello-client.c $(pkg-config --cflags --libs
 * exs) */
#include <exs.h>
#include <stdio.h>

int main(void)
{
    char answer[64];
    ssize_t length = -1;

    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (exs_blocking_connect_host(sock, "127.0.0.1", "7471") == 0 && exs_write(sock, "hello, RDMA", 11) == 11)
        length = exs_read(sock, answer, sizeof(answer));
    if (length == -1) {
        perror("hello-client");
        return 1;
    }
    printf("%.*s\n", (int)length, answer);
    return exs_blocking_close(sock) == 0 ? 0 : 1;
}
