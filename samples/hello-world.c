/* SPDX-License-Identifier: BSD-2-Clause */
/* One message with blocking calls, like verbs/hello_world_rc_send.c: the daemon (without SERVER) sends, the client
 * (with SERVER) receives.
 *
 * Build: cc hello-world.c $(pkg-config --cflags --libs exs). Run: hello-world here, hello-world HERE there. */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <exs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

static const char message[] = "hello world";

static int send_to_client(int listener, struct addrinfo *here)
{
    struct sockaddr_in bound;
    socklen_t length = sizeof(bound);

    if (exs_bind(listener, here->ai_addr, here->ai_addrlen) == -1 || exs_listen(listener, SOMAXCONN) == -1 ||
        exs_getsockname(listener, (struct sockaddr *)&bound, &length) == -1)
        return -1;
    printf("waiting on port %u\n", ntohs(bound.sin_port));
    fflush(stdout);
    int sock = exs_blocking_accept(listener, NULL, NULL);
    if (sock == -1)
        return -1;
    printf("going to send the message: '%s'\n", message);
    if (exs_blocking_send(sock, message, sizeof(message), 0, NULL) == -1)
        return -1;
    return exs_blocking_close(sock);
}

static int receive_from_daemon(int sock, struct addrinfo *there)
{
    char buffer[64] = "";

    if (exs_blocking_connect(sock, there->ai_addr, there->ai_addrlen) == -1 ||
        exs_blocking_recv(sock, buffer, sizeof(buffer) - 1, 0, NULL) == -1)
        return -1;
    printf("Message is '%s'\n", buffer);
    return 0;
}

int main(int argc, char **argv)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *address;
    const char *port = "19875";

    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int option = getopt(argc, argv, "p:");
    if (option == 'p')
        port = optarg;
    const char *server = argv[optind];
    int rc = option == '?' ? EAI_BADFLAGS : getaddrinfo(server, port, &hints, &address);
    if (rc != 0) {
        fprintf(stderr, "usage: hello-world [-p PORT] [SERVER]: %s\n", gai_strerror(rc));
        return 2;
    }
    int sock = exs_socket(PF_INET, SOCK_SEQPACKET, 0);
    rc = server ? receive_from_daemon(sock, address) : send_to_client(sock, address);
    if (rc == -1 || exs_blocking_close(sock) == -1) {
        perror("hello-world");
        rc = 1;
    }
    freeaddrinfo(address);
    return rc;
}
