/* SPDX-License-Identifier: BSD-2-Clause */
/* counters.h - the library's counters of a client's event queues (exs_getstats()), from connect to close. */
#ifndef EXSTEST_COUNTERS_H
#define EXSTEST_COUNTERS_H

#include <exs.h>

/* Adds a queue's counters to a sum; a counter that one device does not provide becomes unknown in the sum. */
void counters_add(exs_stats_t *sum, exs_qhandle_t queue);
void counters_join(exs_stats_t *sum, const exs_stats_t *part);
/* counters_say() prints the counters as text with conclusions, counters_json() as a member of the JSON object that is
 * being printed. */
void counters_say(const exs_stats_t *counted);
void counters_json(const exs_stats_t *counted);

#endif
