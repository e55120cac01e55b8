/* SPDX-License-Identifier: BSD-2-Clause */
/* core.h - the parts of the harness core.c: what the connection manager tells EXS (news.c). */
#ifndef CHECK_FUZZ_CORE_H
#define CHECK_FUZZ_CORE_H

#include "check/fuzz/input.h"
#include "check/fuzz/peer.h"

/* What comes next for this id where nothing goes wrong. */
void news_next(struct mock_id *id, struct input *input);
/* A peer asks a listener for a connection, with this hello. */
void news_request(struct mock_id *listener, struct peer *peer, const uint8_t *bytes, uint8_t length);
/* Any of it, and of what goes wrong. */
void news_step(struct input *input);

#endif
