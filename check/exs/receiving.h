/* SPDX-License-Identifier: BSD-2-Clause */
/* receiving.h - a pair whose server receives into files of a directory: shared by the tests of exs_recvfile. */
#ifndef CHECK_RECEIVING_H
#define CHECK_RECEIVING_H

#include "check/support/files.h"

#define SEED 7

extern struct pair pair; /* waiting on either inbox drives both ends */
extern struct folder folder;

/* Fixtures. */
void open_all(void);
void close_all(void);

void receive_files(exs_xferfile_t *vector, int count, int flags);
/* The client sends these bytes of the pattern. The caller frees them when they have been sent. */
uint8_t *send_pattern(size_t length, uint64_t at);
off_t length_of(const exs_event_t *event);
void rest_comes(uint64_t at, size_t length);

#endif
