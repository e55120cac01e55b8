/* SPDX-License-Identifier: BSD-2-Clause */
/* shipping.h - sends all files that exs-put was asked for: small ones in parcels, of which two are under way, and each
 * larger one by itself. */
#ifndef FILES_SHIPPING_H
#define FILES_SHIPPING_H

#include "account.h"
#include "outlet.h"
#include "picks.h"

/* Sends each pick, and accounts for it. A connection that failed is replaced by another one; if the server can't be
 * reached, the rest is left out. 0; -1: there is no memory. */
int shipping_send(struct outlet *outlet, struct picks *picks, struct account *account);
/* The picks that are not settled were not tried. */
void shipping_leave_out(struct account *account, const struct picks *picks);

#endif
