/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocking way in: connect, send, receive, close. Build: cc hello-client.c $(pkg-config --cflags --libs
 * exs) */
#include <exs.h>
#include <netinet/in.h>
#include <stdio.h>

int main(void)
{
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(7471)};
    char answer[64];
    ssize_t length = -1;

    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (exs_blocking_connect(sock, (struct sockaddr *)&server, sizeof(server)) == 0 &&
        exs_write(sock, "hello, RDMA", 11) == 11)
        length = exs_read(sock, answer, sizeof(answer));
    if (length == -1) {
        perror("hello-client");
        return 1;
    }
    printf("%.*s\n", (int)length, answer);
    return exs_blocking_close(sock) == 0 ? 0 : 1;
}
