/* SPDX-License-Identifier: BSD-2-Clause */
/* config.h - the configuration that exs_init_config gives to the library. */
#ifndef XS_CONFIG_H
#define XS_CONFIG_H

#include <exs.h>

/* Copies a configuration of any version of exs_config_t. `given` may be NULL: everything is as by default. Strings are
 * not copied. Returns 0, or -1 and EINVAL. */
int xs_config_read(const exs_config_t *given, exs_config_t *config);
/* Does a later exs_init_config agree with the configuration in use, in each field that it sets? Returns 0, or -1 and
 * EALREADY. Called with init_lock of library.c, as is the next. */
int xs_config_compare(const exs_config_t *config);
/* Stores the configuration in use, and copies its strings. */
void xs_config_keep(const exs_config_t *config);

#endif
