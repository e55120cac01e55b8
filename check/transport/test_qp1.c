/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_qp1.c - which headers a packet must have to be a management datagram for queue pair 1, and which of their bits
 * are ignored.
 */
#include <check.h>
#include <string.h>
#include "check/support/support.h"
#include "soft/link/qp1.h"

static uint8_t packet[QP1_PACKET + 1], mad[QP1_MAD];

static void write_one(void)
{
    for (size_t i = 0; i < sizeof mad; i++)
        mad[i] = (uint8_t)(i + 1);
    qp1_write(packet, 0x123456, mad);
}

START_TEST(is_read)
{
    ck_assert_ptr_eq(qp1_read(packet, QP1_PACKET), packet + QP1_HEADERS);
    ck_assert_mem_eq(packet + QP1_HEADERS, mad, sizeof mad);
}
END_TEST

static const struct {
    size_t at;
    uint8_t flip; /* bits to flip */
} wrong[] = {
    {0, 0x01},                          /* with immediate data */
    {0, 0x60},                          /* opcode of a reliable connection */
    {1, 0x10},  {1, 0x01},              /* pad count, header version */
    {2, 0x01},  {3, 0x01},              /* P_Key */
    {5, 0x01},  {6, 0x01},  {7, 0x02},  /* destination queue pair */
    {12, 0x01}, {13, 0x80}, {15, 0x01}, /* Q_Key */
    {17, 0x01}, {18, 0x01}, {19, 0x02}, /* source queue pair */
};

START_TEST(is_not_read)
{
    packet[wrong[_i].at] ^= wrong[_i].flip;
    ck_assert_ptr_null(qp1_read(packet, QP1_PACKET));
}
END_TEST

static const size_t lengths[] = {0, QP1_HEADERS, QP1_PACKET - 4, QP1_PACKET - 1, QP1_PACKET + 1};

START_TEST(is_of_another_length)
{
    ck_assert_ptr_null(qp1_read(packet, lengths[_i]));
}
END_TEST

/* Ignored: solicited event and migration bits, the P_Key's membership bit, FECN and BECN, the acknowledgement request,
 * and the PSN. */
static const size_t any[] = {1, 2, 4, 8, 9, 16, QP1_HEADERS};

START_TEST(may_be_anything)
{
    packet[any[_i]] ^= any[_i] == 1 || any[_i] == 2 ? 0x80 : 0xff;
    ck_assert_ptr_nonnull(qp1_read(packet, QP1_PACKET));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue pair 1's packets");
    TCase *tcase = new_case(suite, "queue pair 1's packets");

    tcase_add_checked_fixture(tcase, write_one, NULL);
    tcase_add_test(tcase, is_read);
    tcase_add_loop_test(tcase, is_not_read, 0, COUNT(wrong));
    tcase_add_loop_test(tcase, is_of_another_length, 0, COUNT(lengths));
    tcase_add_loop_test(tcase, may_be_anything, 0, COUNT(any));
    return run_suite(suite);
}
