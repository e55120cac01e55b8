/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h - parsing and printing the addresses and numbers of a command line. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Parses a numeric IPv4 or IPv6 address, optionally with %INTERFACE, and a port (0 to 65535). Returns the length of
 * *address in bytes, or 0 if it is invalid. resolve.h accepts names, too. */
socklen_t options_address(const char *host, const char *port, struct sockaddr_storage *address);
/* Writes "ADDR port P" to `out`, and returns `out`. */
#define OPTIONS_ADDRESS_MAX 96
const char *options_address_text(const struct sockaddr_storage *address, char out[OPTIONS_ADDRESS_MAX]);
/* Parses a size in bytes: a decimal integer above 0, optionally followed by K, M, G or T (powers of 1024). Returns
 * false if it is invalid. */
bool options_bytes(const char *text, uint64_t *bytes);
/* Parses a decimal integer from low to high. Returns -1 if it is invalid. */
long options_number(const char *text, long low, long high);

/* Reports an invalid command line: prints one line and exits with status 2. */
_Noreturn void options_wrong(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like options_wrong(), for an `answer` ('?' or ':') of getopt_long() with opterr 0 and a ':' before the letters. Each
 * option must have a letter. */
_Noreturn void options_unknown(const char *name, char **argv, const char *letters, int answer);
/* If the command line is NAME --version: prints the version and exits. */
void options_version(const char *name, int argc, char **argv);

#endif
