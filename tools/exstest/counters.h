/* SPDX-License-Identifier: BSD-2-Clause */
/* counters.h - what the library counted on a client's event queues (exs_getstats), from connecting to closing.
 */
#ifndef EXSTEST_COUNTERS_H
#define EXSTEST_COUNTERS_H

#include <exs.h>

/* Those of a queue beside those that are there: one that a device does not tell is unknown of all. */
void counters_add(exs_stats_t *sum, exs_qhandle_t queue);
void counters_join(exs_stats_t *sum, const exs_stats_t *part);
/* For people, with what can be read from them; and as a member of an object of JSON that is being printed. */
void counters_say(const exs_stats_t *counted);
void counters_json(const exs_stats_t *counted);

#endif
