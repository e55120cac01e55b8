/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * known.c - the table of known differences. A fault that is not in the table is a failure. A case in the table may also
 * pass.
 *
 * The entries of rxe are for Linux 6.1.
 */
#include <fnmatch.h>
#include <stddef.h>
#include "known.h"

#define TICK (4 * IBTA_MS) /* a jiffy of Debian's kernels */

static const char ticks[] =
    "the specification: rxe waits for a whole number of the kernel's ticks of 4 ms, rounded "
    "down, and counts the one under way";
static const char unchecked[] = "the specification: this rxe does not look at the length of each packet";

static const struct {
    const char *row, *fault; /* patterns, for fnmatch */
    const char *why;
} rxe[] = {
    {"ACK with a PSN never sent", "*came 1 times, not 2",
     "the specification: rxe takes any later PSN for an acknowledgement, even of what was never sent"},
    {"an old ACK refills nothing", "* ms is too early*",
     "the specification: rxe lets the timer of the request before run on, instead of starting it anew"},
    {"NAK of sequence for ever*", "*",
     "the specification: rxe repeats at once for the first NAK, then after time-outs; it ends with the same "
     "error"},
    {"READ response ? of 3 is lost", "* ms is too late*",
     "both: a gap may be taken for a NAK; rxe drops what is behind it and waits for the time-out"},
    {"ACK with the PSN of a READ", "last byte *",
     "the specification: nothing but its data answers a READ; rxe completes it as if they had come"},
    {"answer: too little for a READ", "*did not complete*",
     "the specification: the answer can't be right, yet rxe waits for more"},
    {"answer: too much for a READ", "*status 4 where*",
     "both fail the work and keep the memory; it is the responder's fault, which status 7 says and 4 does not"},
    {"answer: an atomic's result for a READ", "*status 0 where*",
     "the specification: rxe reports success, and yet goes to the error state"},
    {"READ again, whole and half", "opcode 0f *came, not 10 *",
     "the specification: rxe goes on with its answer to the whole, and so calls an only packet a last one"},
    {"an opcode that is reserved", "*did not come", "the specification: rxe drops what it should refuse"},
    {"FIRST of less than the MTU", "*", unchecked},
    {"MIDDLE of less than the MTU", "*", unchecked},
    {"LAST of nothing", "*", unchecked},
    {"ONLY of more than the MTU", "*", unchecked},
    {"SEND of more than the receive holds", "*syndrome 63, not 61",
     "the specification: the request was too long; rxe blames its own queue pair"},
    {"SEND to a receive whose key is wrong", "*status 2 where*",
     "the specification: the syndrome is right, but the receive's status is 4 (local protection error)"},
    {"SEND *that invalidates a *", "*syndrome 1f, not 62",
     "both: the responder fails, and the receive says why; rxe has acknowledged the message before"},
};

const char *known_difference(const char *device, const char *row, const struct judge *judge)
{
    if (fnmatch("rxe*", device, 0) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof rxe / sizeof *rxe; i++)
        if (fnmatch(rxe[i].row, row, 0) == 0 && fnmatch(rxe[i].fault, judge->why, 0) == 0)
            return rxe[i].why;
    /* A CPU that was stopped handles its timer ticks late, and then several at once. */
    if (judge->early_by > 0 && judge->early_by <= 2 * TICK + judge->record->stall)
        return ticks;
    return NULL;
}
