/* SPDX-License-Identifier: BSD-2-Clause */
/* words.h - what a case says: words on one line, on standard output. */
#ifndef VERBS_WORDS_H
#define VERBS_WORDS_H

#include <infiniband/verbs.h>

/* One word, "what=value"; the value by name. */
void say(const char *what, const char *value);
void say_number(const char *what, long value);
/* "0", or an errno's name. rc: as most verbs return it. */
void say_error(const char *what, int rc);
/* For verbs that return a pointer, or -1, and set errno. */
void say_result(const char *what, int worked);
void say_status(const char *what, enum ibv_wc_status status);
void say_event(const char *what, enum ibv_event_type type);

/* The case can't go on: says why, and ends it. */
_Noreturn void give_up(const char *what, int error);
/* The value, unless it is NULL. */
void *need(void *made, const char *what);
/* rc of a verb that must work. */
void must(int rc, const char *what);

#endif
