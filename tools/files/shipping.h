/* SPDX-License-Identifier: BSD-2-Clause */
/* shipping.h - sends all files of exs-put's command line: small ones in parcels, with two parcels in flight, and each
 * larger file separately. */
#ifndef FILES_SHIPPING_H
#define FILES_SHIPPING_H

#include "account.h"
#include "outlet.h"
#include "picks.h"

/* Sends each pick, and accounts for it. A failed connection is replaced by a new one; if the server is unreachable, the
 * remaining picks are accounted as left out. Returns 0, or -1 if memory allocation failed. */
int shipping_send(struct outlet *outlet, struct picks *picks, struct account *account);
/* Accounts for the picks that are not settled as left out. */
void shipping_leave_out(struct account *account, const struct picks *picks);

#endif
