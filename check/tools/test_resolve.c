/* SPDX-License-Identifier: BSD-2-Clause */
/* test_resolve.c - tools/common/resolve.h: hosts and ports by name and by number, and error messages. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "check/support/runner.h"
#include "tools/common/options.h"
#include "tools/common/resolve.h"

static const struct {
    const char *host, *port;
    bool listening;
    const char *want; /* the first address as text, or a part of the error message */
} rows[] = {
    {"127.0.0.1", "7470", false, "127.0.0.1 port 7470"},
    {"::1", "1", false, "::1 port 1"},
    {"::", "0", true, ":: port 0"},
    {"0.0.0.0", "65535", true, "0.0.0.0 port 65535"},
    {"fe80::1%lo", "7470", false, "fe80::1%lo port 7470"},
    {"127.0.0.1", "0", false, "bad port '0': want a number from 1 to 65535, or a service's name"},
    {"127.0.0.1", "65536", false, "bad port '65536': want"},
    {"127.0.0.1", "65536", true, "bad port '65536': want a number from 0 to 65535, or a service's name"},
    {"127.0.0.1", "18446744073709551617", false, "bad port '18446744073709551617'"},
    {"127.0.0.1", "", false, "bad port ''"},
    {"127.0.0.1", "+1", false, "bad port '+1'"},
    {"127.0.0.1", "-1", false, "bad port '-1'"},
    {"127.0.0.1", " 1", false, "bad port ' 1'"},
    {"127.0.0.1", "1x", false, "bad port '1x'"},
    {"fe80::1%no-interface", "1", false, "bad address 'fe80::1%no-interface': "},
    {"300.0.0.1 ", "1", false, "bad address '300.0.0.1 ': "},
};

START_TEST(numbers)
{
    char why[RESOLVE_TEXT_MAX] = "", text[OPTIONS_ADDRESS_MAX] = "";
    struct addrinfo *found = resolve(rows[_i].host, rows[_i].port, rows[_i].listening, why);
    struct sockaddr_storage first = {0};

    if (found != NULL) {
        memcpy(&first, found->ai_addr, found->ai_addrlen);
        ck_assert_str_eq(options_address_text(&first, text), rows[_i].want);
        ck_assert_ptr_null(found->ai_next); /* one entry, not one for each type of socket */
        freeaddrinfo(found);
    } else {
        int error = errno;

        ck_assert_msg(strstr(why, rows[_i].want) == why, "said: %s", why);
        ck_assert_int_eq(error, strncmp(why, "bad port", 8) == 0 ? EINVAL : EADDRNOTAVAIL);
    }
}
END_TEST

/* options_address() keeps the scope of an IPv6 address, too. */
START_TEST(scope)
{
    struct sockaddr_storage address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;

    ck_assert_uint_eq(options_address("fe80::1%lo", "7470", &address), sizeof(*v6));
    ck_assert_uint_eq(v6->sin6_scope_id, if_nametoindex("lo"));
    ck_assert_uint_eq(ntohs(v6->sin6_port), 7470);
    ck_assert_uint_eq(options_address("localhost", "7470", &address), 0);
    ck_assert_uint_eq(options_address("127.0.0.1", "65536", &address), 0);
    ck_assert_uint_eq(options_address("127.0.0.1", "http", &address), 0);
}
END_TEST

START_TEST(names)
{
    char why[RESOLVE_TEXT_MAX] = "";
    struct addrinfo *found = resolve("localhost", "7470", false, why), *known;

    if (getaddrinfo("localhost", NULL, NULL, &known) != 0) { /* this system has no hosts file */
        ck_assert_ptr_null(found);
        ck_assert_msg(strstr(why, "bad address 'localhost': ") == why, "said: %s", why);
    } else {
        ck_assert_msg(found != NULL, "%s", why);
        freeaddrinfo(found);
        freeaddrinfo(known);
    }
    found = resolve("127.0.0.1", "http", false, why);
    if (getservbyname("http", "tcp") == NULL) { /* this system has no list of services */
        ck_assert_msg(strstr(why, "bad port 'http': want") == why, "said: %s", why);
        return;
    }
    ck_assert_uint_eq(((struct sockaddr_in *)found->ai_addr)->sin_port, htons(80));
    freeaddrinfo(found);
}
END_TEST

/* The longest address fits into the buffer. */
START_TEST(longest)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = 0xffff, .sin6_scope_id = UINT32_MAX};
    struct sockaddr_storage address = {0};
    char text[OPTIONS_ADDRESS_MAX];

    memset(&v6.sin6_addr, 0xfe, sizeof(v6.sin6_addr));
    v6.sin6_addr.s6_addr[1] = 0x80;
    memcpy(&address, &v6, sizeof(v6));
    ck_assert_str_eq(options_address_text(&address, text),
                     "fe80:fefe:fefe:fefe:fefe:fefe:fefe:fefe%4294967295 port 65535");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resolve");
    TCase *tcase = new_case(suite, "addresses");

    tcase_add_loop_test(tcase, numbers, 0, (int)(sizeof(rows) / sizeof(rows[0])));
    tcase_add_test(tcase, scope);
    tcase_add_test(tcase, names);
    tcase_add_test(tcase, longest);
    return run_suite(suite);
}
