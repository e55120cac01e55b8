/* SPDX-License-Identifier: BSD-2-Clause */
/* core.h - parts of the harness core.c: connection manager events for EXS (news.c). */
#ifndef CHECK_FUZZ_CORE_H
#define CHECK_FUZZ_CORE_H

#include "check/fuzz/input.h"
#include "check/fuzz/peer.h"

/* Delivers the next event of this identifier if nothing goes wrong. */
void news_next(struct mock_id *id, struct input *input);
/* A peer requests a connection at a listener, with this hello. */
void news_request(struct mock_id *listener, struct peer *peer, const uint8_t *bytes, uint8_t length);
/* Delivers any event, also of failures. */
void news_step(struct input *input);

#endif
