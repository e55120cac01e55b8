/* SPDX-License-Identifier: BSD-2-Clause */
/* account.c - prints results as text or JSON; see account.h. */
#include "account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/clock.h"
#include "tools/common/standard.h"
#include "tools/common/terminal.h"

void account_begin(struct account *account, const char *program, enum account_form form)
{
    *account = (struct account){.program = program, .form = form, .out = stdout, .started = clock_seconds()};
}

/* Returns a copy that is safe to show on a terminal, or NULL if memory allocation failed. The caller frees it. Names in
 * folders may contain any bytes. */
static char *filtered_copy(const char *text)
{
    char *copy = strdup(text);

    return copy != NULL ? terminal_filter(copy) : NULL;
}

static const char *text_of(const char *copy)
{
    return copy != NULL ? copy : "";
}

static void print_lines(const struct account *account, const struct account_file *file, const char *digest)
{
    unsigned long long size = file->size;
    double moved = (double)(file->size - file->resumed);
    char *path = filtered_copy(file->path);

    if (file->resumed > 0)
        fprintf(account->out, "%s: %s: %llu bytes were there from an earlier attempt\n", account->program,
                text_of(path), (unsigned long long)file->resumed);
    fprintf(account->out, "%s: %s: %llu bytes in %.3f s, %.2f GB/s, digest %s agreed\n", account->program,
            text_of(path), size, file->seconds, moved / 1e9 / file->seconds, digest);
    free(path);
}

void account_done(struct account *account, const struct account_file *file)
{
    char digest[2 * TRANSFER_DIGEST + 1];

    account->done++;
    account->bytes += file->size;
    account->moved += file->size - file->resumed;
    transfer_digest_text(file->digest, digest);
    if (account->form == ACCOUNT_LINES)
        print_lines(account, file, digest);
    if (account->form != ACCOUNT_JSON)
        return;
    fprintf(account->out, "{\"file\":");
    terminal_json(account->out, file->path);
    fprintf(account->out, ",\"bytes\":%llu,\"seconds\":%.6f,\"digest\":\"%s\"}\n",
            (unsigned long long)file->size, file->seconds, digest);
}

/* Counts a failure, and prints it in the form JSON. */
static void count_failure(struct account *account, const char *path, const char *why)
{
    account->failed++;
    if (account->form != ACCOUNT_JSON)
        return;
    fprintf(account->out, "{\"file\":");
    terminal_json(account->out, path);
    fprintf(account->out, ",\"error\":");
    terminal_json(account->out, why);
    fprintf(account->out, "}\n");
}

void account_skipped(struct account *account, const char *path, uint64_t size)
{
    char *shown = filtered_copy(path);

    account->skipped++;
    if (account->form == ACCOUNT_LINES)
        fprintf(account->out, "%s: %s: is there already\n", account->program, text_of(shown));
    free(shown);
    if (account->form != ACCOUNT_JSON)
        return;
    fprintf(account->out, "{\"file\":");
    terminal_json(account->out, path);
    fprintf(account->out, ",\"bytes\":%llu,\"skipped\":true}\n", (unsigned long long)size);
}

void account_failed(struct account *account, const char *path, const char *why)
{
    char *shown = filtered_copy(path);

    fprintf(stderr, "%s: %s: %s\n", account->program, text_of(shown), why);
    free(shown);
    count_failure(account, path, why);
}

void account_left_out(struct account *account, const char *path)
{
    count_failure(account, path, "not tried: the server cannot be reached");
}

void account_end(const struct account *account, const char *device)
{
    double seconds = clock_seconds() - account->started;
    unsigned long long bytes = account->bytes;

    if (account->form == ACCOUNT_LINES) {
        fprintf(account->out, "%s: total: %lu files, %llu bytes in %.3f s, %.2f GB/s%s, device %s",
                account->program, account->done, bytes, seconds, (double)account->moved / 1e9 / seconds,
                account->done > 0 ? ", digests agreed" : "", device);
        if (account->skipped > 0)
            fprintf(account->out, "; %lu were there already", account->skipped);
        fprintf(account->out, account->failed > 0 ? "; %lu more failed\n" : "\n", account->failed);
    }
    if (account->form == ACCOUNT_JSON)
        fprintf(account->out,
                "{\"files\":%lu,\"failed\":%lu,\"bytes\":%llu,\"seconds\":%.6f,\"device\":\"%s\"}\n",
                account->done, account->failed, bytes, seconds, device);
}

int account_flush(const struct account *account)
{
    return standard_flush(account->program, "cannot print what was done") == 0 ? 0 : -1;
}
