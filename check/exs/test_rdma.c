/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rdma.c - the device interface on rdma-core, as far as it can be tested without a device: which addresses
 * it accepts for hardware devices, and in which form it passes them on.
 */
#include "core/device/rdma/address.h"
#include "check/support/support.h"

#include <arpa/inet.h>
#include "core/device/device.h"

static struct sockaddr_storage address_of(const char *text)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address;

    if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
        *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = in->sin_addr, .sin_port = htons(7471)};
    else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
        *in6 = (struct sockaddr_in6){
            .sin6_family = AF_INET6, .sin6_addr = in6->sin6_addr, .sin6_port = htons(7471)};
    else
        ck_abort_msg("%s is no address", text);
    return address;
}

/* An identifier without an event channel: a call that reaches the kernel fails with EBADF. */
static struct rdma_event_channel no_channel = {.fd = -1};
static union {
    struct rdma_cm_id id;
    char rest[4096]; /* rdma-core's private data follows the identifier */
} deaf;

static struct rdma_cm_id *deaf_id(void)
{
    memset(&deaf, 0, sizeof deaf);
    deaf.id.channel = &no_channel;
    return &deaf.id;
}

static int bind_to(const char *text)
{
    struct sockaddr_storage address = address_of(text);

    return rdma_device.bind_addr(deaf_id(), (struct sockaddr *)&address);
}

static int resolve(const char *text)
{
    struct sockaddr_storage address = address_of(text);

    return rdma_device.resolve_addr(deaf_id(), NULL, (struct sockaddr *)&address, 1000);
}

static int resolve_from(const char *text)
{
    struct sockaddr_storage from = address_of(text), to = address_of("192.0.2.1");

    return rdma_device.resolve_addr(deaf_id(), (struct sockaddr *)&from, (struct sockaddr *)&to, 1000);
}

static const char *const loopbacks[] = {
    "127.0.0.1", "127.0.0.0", "127.1.2.3", "127.255.255.255", "::1", "::ffff:127.0.0.1", "::ffff:127.9.9.9",
};
static const char *const others[] = {
    "0.0.0.0", "126.255.255.255", "128.0.0.1", "192.0.2.1", "::",
    "::2",     "2001:db8::1",     "fe80::1",   "7f00::1",   "::ffff:192.0.2.1",
};

/* The kernel's connection manager treats a loopback address as the wildcard address, so that a listener on it
 * could be reached from the network. */
START_TEST(loopback_is_not_a_real_devices)
{
    for (int i = 0; i < COUNT(loopbacks); i++) {
        must_fail(bind_to(loopbacks[i]), EADDRNOTAVAIL);
        must_fail(resolve(loopbacks[i]), ENODEV);
        must_fail(resolve_from(loopbacks[i]), EADDRNOTAVAIL);
    }
}
END_TEST

START_TEST(other_addresses_are)
{
    for (int i = 0; i < COUNT(others); i++) {
        must_fail(bind_to(others[i]), EBADF);
        must_fail(resolve(others[i]), EBADF);
    }
}
END_TEST

static void is_as(const char *given, const char *taken)
{
    struct sockaddr_storage from = address_of(given), to = address_of(taken);
    union rdma_address room;
    struct sockaddr *plain = rdma_plain_address((struct sockaddr *)&from, &room);
    size_t length = to.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

    ck_assert_mem_eq(plain, &to, length);
}

/* Network devices know IPv4 addresses only as such, not as IPv6-mapped addresses. */
START_TEST(mapped_addresses_are_plain)
{
    is_as("::ffff:192.0.2.1", "192.0.2.1");
    is_as("::ffff:0.0.0.0", "0.0.0.0");
    is_as("192.0.2.1", "192.0.2.1");
    is_as("2001:db8::1", "2001:db8::1");
    is_as("::192.0.2.1", "::192.0.2.1");
    is_as("::", "::");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma-core's devices");
    TCase *addresses = add_bare_case(suite, "addresses", 10);

    tcase_add_test(addresses, loopback_is_not_a_real_devices);
    tcase_add_test(addresses, other_addresses_are);
    tcase_add_test(addresses, mapped_addresses_are_plain);
    return run_suite(suite);
}
