/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs-put [-v] [-a ADDR] [-p PORT] FILE... - sends files to an exs-serve, with blocking calls.
 *
 * This file: options and what is printed. Sending is in outlet.c, the bytes in transfer.c.
 */
#include <errno.h>
#include <exs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/options.h"
#include "tools/common/standard.h"
#include "outlet.h"
#include "progress.h"

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: exs-put [-v] [-a ADDR] [-p PORT] FILE...\n"
                    "  -a  address of the server, numeric (127.0.0.1)\n"
                    "  -p  its port (" TRANSFER_PORT ")\n"
                    "  -v  say what was sent, how fast, and by which device\n");
    exit(2);
}

static void say_file(const struct outlet *outlet, const char *path)
{
    char digest[2 * TRANSFER_DIGEST + 1];

    transfer_digest_text(outlet->digest, digest);
    printf("exs-put: %s: %llu bytes in %.3f s, %.2f GB/s, digest %s agreed\n", path,
           (unsigned long long)outlet->size, outlet->seconds, (double)outlet->size / 1e9 / outlet->seconds,
           digest);
}

static int send_files(struct outlet *outlet, char **paths, int count, bool verbose)
{
    double started = progress_clock();
    uint64_t bytes = 0;

    for (int i = 0; i < count; i++) {
        if (outlet_file(outlet, paths[i]) == -1) {
            fprintf(stderr, "exs-put: %s: %s\n", paths[i], outlet->error);
            return -1;
        }
        bytes += outlet->size;
        if (verbose)
            say_file(outlet, paths[i]);
    }
    double seconds = progress_clock() - started;
    if (verbose)
        printf("exs-put: total: %d files, %llu bytes in %.3f s, %.2f GB/s, digests agreed, device %s\n", count,
               (unsigned long long)bytes, seconds, (double)bytes / 1e9 / seconds, outlet->device);
    return 0;
}

int main(int argc, char **argv)
{
    const char *host = "127.0.0.1", *port = TRANSFER_PORT;
    struct sockaddr_storage address;
    char text[OPTIONS_ADDRESS_MAX];
    struct outlet outlet;
    bool verbose = false;
    int option;

    standard_open();
    options_version("exs-put", argc, argv);
    while ((option = getopt(argc, argv, "a:p:v")) != -1) {
        if (option == 'a')
            host = optarg;
        else if (option == 'p')
            port = optarg;
        else if (option == 'v')
            verbose = true;
        else
            usage();
    }
    socklen_t length = options_address(host, port, &address);
    if (optind == argc || length == 0)
        usage();
    if (exs_init(EXS_VERSION) == -1) {
        fprintf(stderr, "exs-put: cannot start: %s\n", strerror(errno));
        return 1;
    }
    if (outlet_open(&outlet, (struct sockaddr *)&address, length) == -1) {
        fprintf(stderr, "exs-put: %s: %s\n", options_address_text(&address, text), outlet.error);
        return 1;
    }
    int result = send_files(&outlet, argv + optind, argc - optind, verbose);
    if (outlet_close(&outlet) == -1 && result == 0) {
        fprintf(stderr, "exs-put: %s\n", outlet.error);
        return 1;
    }
    return result == 0 ? 0 : 1;
}
