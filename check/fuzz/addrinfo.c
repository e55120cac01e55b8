/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * addrinfo.c - fuzzes rdma_getaddrinfo() as exs-soft-run provides it: the names, services and hints of a program, and
 * the results of the resolver, which may be several addresses of any length, with or without a canonical name.
 *
 * The resolver is the harness's (--wrap), or the C library's for numeric addresses only, so no network is used. For
 * every input: the result is a list whose addresses are as long as it says, the hints are unchanged, and nothing leaks.
 * If the lengths are valid, rdma_create_ep() succeeds or returns an error.
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "check/fuzz/input.h"
#include "check/support/endpoints.h"
#include "soft/cm/cm.h"

#define NAME 64 /* maximum length of a name */

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                     struct rdma_addrinfo **out);
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
void __real_freeaddrinfo(struct addrinfo *found);
void __wrap_freeaddrinfo(struct addrinfo *found);

static struct input *input;
static bool ours; /* the last result was made by the harness */

/* ---- The resolver ---- */

static struct addrinfo *make_answer(void)
{
    uint8_t how = input_u8(input);
    struct addrinfo *one = calloc(1, sizeof *one);
    const uint8_t *bytes;
    size_t length = how & 1 ? sizeof(struct sockaddr_in) : how & 2 ? sizeof(struct sockaddr_in6) : how >> 4;

    expect(one, "no memory");
    one->ai_family = how & 1 ? AF_INET : AF_INET6;
    one->ai_addr = calloc(1, length + 1);
    one->ai_addrlen = (socklen_t)length;
    expect(one->ai_addr, "no memory");
    length = input_bytes(input, &bytes, length);
    if (length > 0)
        memcpy(one->ai_addr, bytes, length);
    if (how & 4)
        one->ai_canonname = strdup("host.example");
    return one;
}

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    static const int errors[] = {EAI_NONAME, EAI_AGAIN, EAI_FAIL, EAI_SYSTEM};
    struct addrinfo wanted = *hints;
    uint8_t how = input_u8(input);

    ours = how & 1;
    if (!ours) {
        wanted.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
        return __real_getaddrinfo(node, service, &wanted, found);
    }
    if (how & 2)
        return errors[how >> 2 & 3];
    for (unsigned count = 1 + (how >> 4 & 3); count > 0; count--) {
        *found = make_answer();
        found = &(*found)->ai_next;
    }
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
    if (!ours) {
        __real_freeaddrinfo(found);
        return;
    }
    while (found) {
        struct addrinfo *next = found->ai_next;
        free(found->ai_addr);
        free(found->ai_canonname);
        free(found);
        found = next;
    }
}

/* ---- The program ---- */

static const char *read_name(char name[NAME])
{
    const uint8_t *bytes;
    uint8_t length = input_u8(input);

    if (length >= 0xc0)
        return NULL;
    size_t got = input_bytes(input, &bytes, length % NAME);
    if (got > 0)
        memcpy(name, bytes, got);
    name[got] = '\0';
    return name;
}

/* In a buffer of exactly its length. */
static struct sockaddr *read_address(socklen_t *length)
{
    static const int families[] = {AF_INET, AF_INET6, AF_UNSPEC, AF_UNIX};
    uint8_t how = input_u8(input);
    struct sockaddr_storage address = {.ss_family = (sa_family_t)families[how >> 2 & 3]};
    const uint8_t *bytes;

    *length = 0;
    if ((how & 3) == 0)
        return NULL;
    size_t got = input_bytes(input, &bytes, 16);
    if (got > 0)
        memcpy((uint8_t *)&address + 2, bytes, got);
    *length =
        how & 2 ? (socklen_t)(how & 4 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)) : how >> 4;
    struct sockaddr *exact = malloc(*length ? *length : 1);
    expect(exact, "no memory");
    memcpy(exact, &address, *length);
    return exact;
}

static void read_hints(struct rdma_addrinfo *hints)
{
    static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6, 99};
    static const int types[] = {0, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    static const int spaces[] = {0, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB};
    uint8_t how = input_u8(input);

    hints->ai_flags = input_u8(input) & (RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY);
    hints->ai_family = families[how & 3];
    hints->ai_qp_type = types[how >> 2 & 3];
    hints->ai_port_space = spaces[how >> 4 & 3];
    hints->ai_src_addr = read_address(&hints->ai_src_len);
    hints->ai_dst_addr = read_address(&hints->ai_dst_len);
}

/* ---- The result ---- */

static void expect_address(const struct sockaddr *address, socklen_t length)
{
    const uint8_t *bytes = (const uint8_t *)address;
    unsigned sum = 0;

    expect(!address == !length, "an address of %u bytes that is not there, or one without a length", length);
    for (socklen_t i = 0; i < length; i++)
        sum += bytes[i];
    expect(sum <= 255 * length, "readable");
}

static bool is_whole(const struct sockaddr *address, socklen_t length)
{
    return !address || (length >= sizeof address->sa_family &&
                        ((address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) ||
                         (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6))));
}

/* What rdma_create_ep() requires: the address of its own side. */
static bool is_fit(const struct rdma_addrinfo *res)
{
    return is_whole(res->ai_src_addr, res->ai_src_len) && is_whole(res->ai_dst_addr, res->ai_dst_len) &&
           (res->ai_flags & RAI_PASSIVE ? res->ai_src_addr : res->ai_dst_addr);
}

static void use(struct rdma_addrinfo *res)
{
    struct rdma_cm_id *id;

    for (struct rdma_addrinfo *one = res; one; one = one->ai_next) {
        expect_address(one->ai_src_addr, one->ai_src_len);
        expect_address(one->ai_dst_addr, one->ai_dst_len);
        expect(one->ai_port_space != 0 && one->ai_qp_type != 0, "of no port space, or no type of queue pair");
    }
    if (is_fit(res) && soft_create_ep(&id, res, NULL, NULL) == 0)
        soft_destroy_ep(id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input bytes = {data, size};
    char node[NAME], service[NAME];
    struct rdma_addrinfo hints = {0}, before, *res = NULL;

    input = &bytes;
    bool hinted = input_u8(input) & 1;
    const char *name = read_name(node), *port = read_name(service);
    if (hinted)
        read_hints(&hints);
    before = hints;
    int result = rdma_getaddrinfo(name, port, hinted ? &hints : NULL, &res);
    expect((result == 0) == (res != NULL), "result %d, and %s list", result, res ? "a" : "no");
    expect(memcmp(&hints, &before, sizeof hints) == 0, "the hints are changed");
    if (res)
        use(res);
    rdma_freeaddrinfo(res);
    free(hints.ai_src_addr);
    free(hints.ai_dst_addr);
    return 0;
}
