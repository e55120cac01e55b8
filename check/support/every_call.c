/* SPDX-License-Identifier: BSD-2-Clause */
/* every_call.c - see every_call.h. check/tree/exports compares the list of calls with libexs.sym. */
#include <errno.h>
#include <exs.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "every_call.h"

static int answered(const char *call, long result, int wanted)
{
    if (result == -1 && errno == wanted)
        return 0;
    fprintf(stderr, "%s: %ld with errno %s\n", call, result, strerrorname_np(errno));
    return 1;
}

int every_call_but(int error)
{
    struct sockaddr *address = NULL;
    exs_event_t event;
    exs_token_t token = {0};
    int wrong = 0;

#define TRY(call) (errno = 0, wrong += answered(#call, (long)(call), error))
    TRY(exs_fini());
    TRY(exs_socket(PF_INET, SOCK_STREAM, 0));
    TRY(exs_socket(-1, -1, -1));
    TRY(exs_bind(-1, address, 0));
    TRY(exs_listen(-1, -1));
    TRY(exs_accept(-1, NULL, 1, EXS_BLOCK, NULL));
    TRY(exs_accept(-1, NULL, 1, 0, NULL));
    TRY(exs_connect(-1, address, 0, EXS_BLOCK, NULL, NULL, NULL));
    TRY(exs_connect(-1, address, 0, 0, NULL, NULL, NULL));
    TRY(exs_shutdown(-1, SHUT_RDWR, EXS_BLOCK, NULL, NULL));
    TRY(exs_shutdown(-1, SHUT_RDWR, 0, NULL, NULL));
    TRY(exs_close(-1, EXS_BLOCK, NULL, NULL));
    TRY(exs_close(-1, 0, NULL, NULL));
    TRY(exs_connect_host(-1, NULL, NULL, -1, NULL, NULL, NULL));
    TRY(exs_blocking_connect_host(-1, NULL, NULL));
    TRY(exs_cancel(-1, NULL, -1));
    TRY(exs_fcntl(-1, F_GETFL));
    TRY(exs_getsockname(-1, address, NULL));
    TRY(exs_getpeername(-1, address, NULL));
    TRY(exs_getsockopt(-1, SOL_SOCKET, SO_TYPE, NULL, NULL));
    TRY(exs_setsockopt(-1, SOL_SOCKET, SO_RCVTIMEO, NULL, 0));
    TRY(exs_getdevices(NULL, -1));
    TRY(exs_getstats(-1, NULL, NULL));
    TRY(exs_getdevice(-1, NULL, 0));
    TRY(exs_send(-1, "x", 1, EXS_BLOCK, NULL, NULL, NULL));
    TRY(exs_send(-1, "x", 1, 0, NULL, NULL, NULL));
    TRY(exs_recv(-1, &event, sizeof event, EXS_BLOCK, NULL, NULL, NULL));
    TRY(exs_recv(-1, &event, sizeof event, 0, NULL, NULL, NULL));
    TRY(exs_sendmsg(-1, NULL, EXS_BLOCK, NULL, NULL));
    TRY(exs_sendmsg(-1, NULL, 0, NULL, NULL));
    TRY(exs_recvmsg(-1, NULL, EXS_BLOCK, NULL, NULL));
    TRY(exs_recvmsg(-1, NULL, 0, NULL, NULL));
    TRY(exs_sendfile(-1, NULL, 1, EXS_BLOCK, NULL, NULL));
    TRY(exs_sendfile(-1, NULL, 1, 0, NULL, NULL));
    TRY(exs_recvfile(-1, NULL, 1, EXS_BLOCK, NULL, NULL));
    TRY(exs_recvfile(-1, NULL, 1, 0, NULL, NULL));
    TRY(exs_rread(-1, &event, sizeof event, &token, 0, EXS_BLOCK, NULL, NULL, NULL));
    TRY(exs_rread(-1, &event, sizeof event, &token, 0, 0, NULL, NULL, NULL));
    TRY(exs_rwrite(-1, "x", 1, &token, 0, EXS_BLOCK, NULL, NULL, NULL));
    TRY(exs_rwrite(-1, "x", 1, &token, 0, 0, NULL, NULL, NULL));
    TRY(exs_mexport(-1, NULL, &event, 1, EXS_REMOTE_READ, &token));
    TRY(exs_munexport(-1, &token));
    TRY(exs_mregister(&event, sizeof event, 0));
    TRY(exs_mderegister(NULL, 0));
    TRY(exs_poll(NULL, 0, -1, NULL, NULL, NULL));
    TRY(exs_qcreate(10));
    TRY(exs_qdelete(NULL));
    TRY(exs_qdequeue(NULL, &event, 1, &(struct timeval){0, 0}));
    TRY(exs_qfd(NULL));
    TRY(exs_qpoll(NULL, &event, 1, -1));
    TRY(exs_qprepare(NULL));
    TRY(exs_qstatus(NULL, NULL));
    TRY(exs_qmodify(NULL, 0, NULL));
    TRY(exs_blocking_accept(-1, NULL, NULL));
    TRY(exs_blocking_connect(-1, address, 0));
    TRY(exs_blocking_close(-1));
    TRY(exs_blocking_recv(-1, &event, sizeof event, 0, NULL));
    TRY(exs_blocking_send(-1, "x", 1, 0, NULL));
    TRY(exs_blocking_sendfile(-1, NULL, 1, 0));
    TRY(exs_blocking_recvfile(-1, NULL, 1, 0));
    TRY(exs_blocking_sendmsg(-1, NULL, 0));
    TRY(exs_blocking_recvmsg(-1, NULL, 0));
    TRY(exs_read(-1, &event, sizeof event));
    TRY(exs_write(-1, "x", 1));
#undef TRY
    return wrong;
}
