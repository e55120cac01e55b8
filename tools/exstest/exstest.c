/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exstest - the tests of dapltest, for EXS: S (server), Q (quit the server), T (transactions), P (performance) and L
 * (limits).
 *
 * This file has main(), which selects the test. client.c is the client's side, server.c the server's; link.c is a
 * connection at either side; transaction.c and performance.c run a test on it; limit.c is the limit test.
 */
#include <errno.h>
#include <exs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "client.h"
#include "limit.h"
#include "report.h"
#include "say.h"
#include "server.h"
#include "tools/common/options.h"
#include "tools/common/standard.h"
#include "wire.h"

/* Whether this is a name of uDAPL's provider for any device that the RDMA connection manager finds. EXS finds a device
 * in the same way if none is named. */
static bool is_any_device(const char *name)
{
    return strncmp(name, "OpenIB-", 7) == 0 || strncmp(name, "ofa-v2-", 7) == 0;
}

static bool start_library(const struct options *o)
{
    if (o->device != NULL && !is_any_device(o->device))
        setenv("EXS_DEVICE", o->device, 1);
    if (o->debug >= DEBUG_MAX)
        setenv("EXS_DEBUG", "1", 0);
    if (exs_init(EXS_VERSION) == 0)
        return true;
    complain("cannot start%s%s (EXS_DEBUG=1 says why): %s", o->device != NULL ? " with device " : "",
             o->device != NULL ? o->device : "", strerror(errno));
    return false;
}

static void trace_options(const struct options *o)
{
    trace(1, "test %c, quality of service %s: %s", o->test, o->quality,
          options_poll(o) ? "polls" : "waits for notification");
    if (strchr("QTP", o->test) != NULL)
        trace(1, "server %s, port %s", o->server, o->port);
    if (o->test == 'T')
        trace(1, "threads %u, connections %u, iterations %u, validate %d, shared queue %d", o->threads,
              o->connections, o->iterations, o->validate, o->shared_queue);
    for (int i = 0; i < o->ops.count; i++) {
        char text[64];

        trace(1, "op[%d] %s", i, op_text(&o->ops.op[i], text));
    }
}

/* Reduces the pipeline to a size whose buffers fit into a connection's memory. */
static void fit_pipeline(struct options *o)
{
    uint32_t most = PIPELINE_MAX;

    if (o->test != 'P')
        return;
    while (most > 1 && (op_bytes(&o->ops.op[0]) + 256) * most > MEMORY_MAX / 4)
        most /= 2;
    if (o->pipeline == 0)
        o->pipeline = 1;
    if (o->pipeline > most) {
        trace(1, "pipeline adjusted down to %u", most);
        o->pipeline = most;
    }
}

static int run_client(struct options *o)
{
    say("exstest: Starting Test ...");
    fit_pipeline(o);
    struct outcome outcome = client_run(o);

    if (o->test == 'T')
        report_transaction(o, &outcome);
    else if (o->test == 'P')
        report_performance(o, &outcome);
    else if (o->json)
        printf("{\"test\":\"Q\",\"passed\":%s}\n", outcome.passed ? "true" : "false");
    free(outcome.figures.latency);
    say("exstest: ========== End of Work -- Client Exiting");
    return outcome.passed ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    static char name[] = "exstest";

    standard_open();
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigaction(SIGPIPE, &ignore, NULL); /* standard output may be a pipe whose reader closes it */
    argv[0] = name; /* getopt's messages begin with it; the path may be that of libtool's copy */
    options_version("exstest", argc, argv);
    struct options options = options_read(argc, argv);

    trace_options(&options);
    if (!start_library(&options))
        return 1;
    if (options.test == 'S')
        return server_run(&options);
    int status = options.test == 'L' ? limit_run(&options) : run_client(&options);

    return standard_flush("exstest", "cannot print the result") == 0 ? status : 1;
}
