/* SPDX-License-Identifier: BSD-2-Clause */
/* outcome.c - compares the result of the tested call with the row, and checks that a failed call has changed
 * nothing. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include "trial.h"

static void fail(struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

static void fail(struct trial *trial, const char *format, ...)
{
    struct verdict *verdict = trial->verdict;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(verdict->reason, sizeof(verdict->reason), format, arguments);
    va_end(arguments);
    verdict->passed = false;
    verdict->reported = true;
    _exit(0);
}

void broken(struct trial *trial, const char *what)
{
    trial->verdict->error = errno;
    fail(trial, "%s; a correct call failed: %s", strerror(errno), what);
}

void require(struct trial *trial, bool holds, const char *what)
{
    if (!holds)
        fail(trial, "%s", what);
}

/* Checks that a byte in each direction arrives, and no other: the failed call has neither sent nor received. */
static void still_carries(struct trial *trial)
{
    unsigned char there = 0xa5, back = 0, sent_back;

    pattern(&sent_back, 1);
    peer_tell(trial, PEER_RECEIVE, 1);
    ok_send(trial, &there, 1);
    struct peer_answer answer = peer_hear(trial);

    require(trial, answer.count == 1 && answer.sum == sum_of(&there, 1, SUM_START),
            "after the error the peer received something else than what was sent then");
    peer_tell(trial, PEER_SEND, 1);
    ok_receive(trial, &back, 1);
    peer_hear(trial);
    require(trial, back == sent_back, "after the error another byte was received than the peer sent");
}

static void still_accepts(struct trial *trial)
{
    peer_tell(trial, PEER_CONNECT, 0);
    require(trial, ok_accept(trial) >= 0, "after the error the listener gave no socket");
    peer_hear(trial);
}

/* Whether exs_errmsg() starts with the name of the call and says more; exs_blocking_send is exs_send in it, and so is
 * exs_write. */
static bool is_named(const char *text, const char *function)
{
    const char *name = strncmp(function, "exs_blocking_", 13) == 0 ? function + 13 : function + 4;

    if (strcmp(name, "read") == 0 || strcmp(name, "write") == 0)
        name = strcmp(name, "read") == 0 ? "recv" : "send";
    size_t length = strlen(name);

    return strncmp(text, "exs_", 4) == 0 && strcspn(text + 4, ": ") == length &&
           strncmp(text + 4, name, length) == 0 && strlen(text) > length + 14;
}

void outcome(struct trial *trial, long result)
{
    struct verdict *verdict = trial->verdict;
    int expected = trial->row->expected, error = errno;
    char name[32];

    verdict->error = result < 0 ? error : 0;
    if (result == -1 && !trial->other_call && !is_named(exs_errmsg(), trial->group->function))
        fail(trial, "exs_errmsg does not name the call: %s", exs_errmsg());
    if (expected == 0 && result < 0)
        fail(trial, "%s; it should succeed", strerror(error));
    if (expected != 0 && result != -1)
        fail(trial, "it returned %ld; it should return -1 with %s", result,
             expected_name(trial->group, trial->row, name, sizeof(name)));
    if (expected != 0 && error != expected)
        fail(trial, "%s; it should be %s", strerror(error),
             expected_name(trial->group, trial->row, name, sizeof(name)));
    snprintf(verdict->reason, sizeof(verdict->reason), "%s", strerror(verdict->error));
    verdict->reported = true;
    if (expected == 0)
        return;
    if (trial->queue != NULL && trial->queue != INVALID_QHANDLE)
        no_event(trial, trial->queue);
    if (trial->connected)
        still_carries(trial);
    if (trial->listening)
        still_accepts(trial);
}
