/* SPDX-License-Identifier: BSD-2-Clause */
/* words.h - prints the results of a case: words on one line, on standard output. */
#ifndef VERBS_WORDS_H
#define VERBS_WORDS_H

#include <infiniband/verbs.h>

/* Print one word, "what=value". */
void say(const char *what, const char *value);
void say_number(const char *what, long value);
/* Prints "0", or the name of an errno. rc: as most verbs return it. */
void say_error(const char *what, int rc);
/* For verbs that return a pointer, or -1, and set errno. worked: the verb was successful. */
void say_result(const char *what, int worked);
void say_status(const char *what, enum ibv_wc_status status);
void say_event(const char *what, enum ibv_event_type type);

/* Ends the case, because it cannot continue, and prints the reason. */
_Noreturn void give_up(const char *what, int error);
/* Returns the pointer. Ends the case if it is NULL. */
void *need(void *made, const char *what);
/* Ends the case unless rc is 0. */
void must(int rc, const char *what);

#endif
