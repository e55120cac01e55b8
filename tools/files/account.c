/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines for people and for programs; see account.h. */
#include "account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "tools/common/clock.h"
#include "tools/common/terminal.h"

void account_begin(struct account *account, enum account_form form)
{
    *account = (struct account){.form = form, .started = clock_seconds()};
}

/* Between quotes; what is no text is filtered, for JSON is UTF-8. */
static void print_string(const char *text)
{
    char *copy = strdup(text);

    putchar('"');
    for (const char *at = copy == NULL ? "" : terminal_filter(copy); *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            putchar('\\');
        putchar(*at);
    }
    putchar('"');
    free(copy);
}

void account_sent(struct account *account, const struct outlet *outlet, const char *path)
{
    char digest[2 * TRANSFER_DIGEST + 1];
    unsigned long long size = outlet->size;

    account->sent++;
    account->bytes += outlet->size;
    transfer_digest_text(outlet->digest, digest);
    if (account->form == ACCOUNT_LINES && outlet->resumed > 0)
        printf("exs-put: %s: %llu bytes were there from an earlier attempt\n", path,
               (unsigned long long)outlet->resumed);
    if (account->form == ACCOUNT_LINES)
        printf("exs-put: %s: %llu bytes in %.3f s, %.2f GB/s, digest %s agreed\n", path, size, outlet->seconds,
               (double)size / 1e9 / outlet->seconds, digest);
    if (account->form != ACCOUNT_JSON)
        return;
    printf("{\"file\":");
    print_string(path);
    printf(",\"bytes\":%llu,\"seconds\":%.6f,\"digest\":\"%s\"}\n", size, outlet->seconds, digest);
}

void account_failed(struct account *account, const char *path, const char *why)
{
    account->failed++;
    fprintf(stderr, "exs-put: %s: %s\n", path, why);
    if (account->form != ACCOUNT_JSON)
        return;
    printf("{\"file\":");
    print_string(path);
    printf(",\"error\":");
    print_string(why);
    printf("}\n");
}

void account_end(const struct account *account, const char *device)
{
    double seconds = clock_seconds() - account->started;
    unsigned long long bytes = account->bytes;

    if (account->form == ACCOUNT_LINES) {
        printf("exs-put: total: %lu files, %llu bytes in %.3f s, %.2f GB/s, digests agreed, device %s",
               account->sent, bytes, seconds, (double)bytes / 1e9 / seconds, device);
        printf(account->failed > 0 ? "; %lu more failed\n" : "\n", account->failed);
    }
    if (account->form == ACCOUNT_JSON)
        printf("{\"files\":%lu,\"failed\":%lu,\"bytes\":%llu,\"seconds\":%.6f,\"device\":\"%s\"}\n",
               account->sent, account->failed, bytes, seconds, device);
}
