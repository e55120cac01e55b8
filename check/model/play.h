/* SPDX-License-Identifier: BSD-2-Clause */
/* play.h - shared by the files that make calls. See model.h. */
#ifndef CHECK_MODEL_PLAY_H
#define CHECK_MODEL_PLAY_H

#include "model.h"

#define CALL() (figures->calls++)

/* play.c */
exs_qhandle_t queue_of(int index);
struct side *side_of(const struct step *step);                           /* NULL: it is not open */
struct op *op_new(struct side *side, int type, const struct step *step); /* NULL: too many operations */
void drive(int wait_ms); /* drives both ends once, then until an event is available */

/* meet.c: opening connections */
void meet_open(void);
void meet_close(void);
struct setup *meet(const struct step *step);
bool meet_event(const exs_event_t *event); /* returns whether this is the event of a connect or an accept */

/* transfer.c: transfers and exs_shutdown */
void do_transfer(struct side *side, const struct step *step);
void read_event(struct op *op, const exs_event_t *event); /* reads the event's union */

#endif
