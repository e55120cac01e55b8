/* SPDX-License-Identifier: BSD-2-Clause */
/* settled.c - see settled.h. */
#include "settled.h"

#include <check.h>
#include <stdio.h>
#include <unistd.h>
#include "core/base/settings.h"

void settled_text(struct soft_home *home, char *text, size_t size)
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);

    ck_assert(file != NULL && before != -1);
    settings_read(NULL);
    ck_assert_int_ne(dup2(fileno(file), STDERR_FILENO), -1);
    if (home != NULL)
        service_suspend(&home->service); /* frees the lock, for which home_settle() does not wait */
    home_settle();
    if (home != NULL)
        service_resume(&home->service);
    ck_assert_int_ne(dup2(before, STDERR_FILENO), -1);
    close(before);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
}
