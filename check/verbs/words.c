/* SPDX-License-Identifier: BSD-2-Clause */
/* words.c - names of results of verbs: those of the headers, without their prefix. */
#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *status_names[] = {
    [IBV_WC_SUCCESS] = "SUCCESS",
    [IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
    [IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
    [IBV_WC_LOC_EEC_OP_ERR] = "LOC_EEC_OP_ERR",
    [IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
    [IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
    [IBV_WC_MW_BIND_ERR] = "MW_BIND_ERR",
    [IBV_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
    [IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
    [IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
    [IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
    [IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
    [IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
    [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
    [IBV_WC_REM_ABORT_ERR] = "REM_ABORT_ERR",
    [IBV_WC_FATAL_ERR] = "FATAL_ERR",
    [IBV_WC_RESP_TIMEOUT_ERR] = "RESP_TIMEOUT_ERR",
    [IBV_WC_GENERAL_ERR] = "GENERAL_ERR",
};

static const char *event_names[] = {
    [IBV_EVENT_CQ_ERR] = "CQ_ERR",
    [IBV_EVENT_QP_FATAL] = "QP_FATAL",
    [IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
    [IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
    [IBV_EVENT_COMM_EST] = "COMM_EST",
    [IBV_EVENT_SQ_DRAINED] = "SQ_DRAINED",
    [IBV_EVENT_SRQ_ERR] = "SRQ_ERR",
    [IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ_LIMIT_REACHED",
    [IBV_EVENT_QP_LAST_WQE_REACHED] = "QP_LAST_WQE_REACHED",
};

void say(const char *what, const char *value)
{
    printf(" %s=%s", what, value);
}

void say_number(const char *what, long value)
{
    printf(" %s=%ld", what, value);
}

void say_error(const char *what, int rc)
{
    /* Some verbs return -1 and set errno, contrary to their manual pages. */
    int error = rc == -1 ? errno : rc;
    const char *name = error == 0 ? "0" : strerrorname_np(error);

    if (name)
        say(what, name);
    else
        say_number(what, rc);
}

void say_result(const char *what, int worked)
{
    say_error(what, worked ? 0 : errno);
}

static void say_named(const char *what, const char **names, size_t count, unsigned value)
{
    if (value < count && names[value])
        say(what, names[value]);
    else
        say_number(what, value);
}

void say_status(const char *what, enum ibv_wc_status status)
{
    say_named(what, status_names, COUNT(status_names), status);
}

void say_event(const char *what, enum ibv_event_type type)
{
    say_named(what, event_names, COUNT(event_names), type);
}

_Noreturn void give_up(const char *what, int error)
{
    printf(" stopped at %s: %s", what, strerror(error));
    fflush(stdout);
    _exit(0);
}

void *need(void *made, const char *what)
{
    if (!made)
        give_up(what, errno);
    return made;
}

void must(int rc, const char *what)
{
    if (rc != 0)
        give_up(what, rc == -1 ? errno : rc);
}
