/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h - reading and printing addresses and numbers of the command line. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* A numeric IPv4 or IPv6 address, perhaps with %INTERFACE, and a port (0 to 65535) into address; returns its
 * length in bytes, or 0. resolve.h takes names, too. */
socklen_t options_address(const char *host, const char *port, struct sockaddr_storage *address);
/* "ADDR port P", a string of a buffer of the caller's. */
#define OPTIONS_ADDRESS_MAX 96
const char *options_address_text(const struct sockaddr_storage *address, char out[OPTIONS_ADDRESS_MAX]);
/* Bytes: a whole decimal number above 0, perhaps with K, M, G or T (powers of 1024) behind it. False: it is
 * none. */
bool options_bytes(const char *text, uint64_t *bytes);
/* A whole decimal number from low to high, else -1. */
long options_number(const char *text, long low, long high);

/* A command line that can't be understood: one line that says why, and the end with status 2. */
_Noreturn void options_wrong(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same of what getopt_long with opterr 0 and a ':' before the letters did not take, each option having a
 * letter: it answered ? or :. */
_Noreturn void options_unknown(const char *name, char **argv, const char *letters, int answer);
/* The command line is NAME --version: says so, and ends. */
void options_version(const char *name, int argc, char **argv);

#endif
