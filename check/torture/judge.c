/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * judge.c - judges a run that has ended: it exited as it should; each failure is one that the manual page
 * allows, or there is none if neither end may notice; and no resource is left that a run without failures does
 * not leave.
 */
#include "run.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONGEST_LINE 400
#define SPIN_S 0.8 /* s of CPU time; a run takes a twentieth of that */
#define SPIN 8     /* or this many times the CPU time of a run without failures, if that is more */

static void blame(struct verdict *verdict, const char *format, ...)
{
    va_list arguments;

    if (!verdict->good)
        return; /* the first reason is kept */
    verdict->good = false;
    va_start(arguments, format);
    vsnprintf(verdict->reason, sizeof(verdict->reason), format, arguments);
    va_end(arguments);
}

/* ---- The manual ---------------------------------------------------------------------------------------- */

/* Returns whether this page, or one that it includes, has the item. */
static bool page_has(const char *name, const char *item)
{
    char path[512], line[LONGEST_LINE], other[64] = "";
    bool has = false;

    snprintf(path, sizeof(path), "%s/man/%s", getenv("EXS_SRCDIR"), name);
    FILE *page = fopen(path, "r");

    while (page != NULL && fgets(line, sizeof(line), page) != NULL) {
        has = has || strcmp(line, item) == 0;
        if (strncmp(line, ".so man3/", 9) == 0)
            snprintf(other, sizeof(other), "%.*s", (int)strcspn(line + 9, "\n"), line + 9);
    }
    if (page != NULL)
        fclose(page);
    return has || (other[0] != 0 && page_has(other, item));
}

/* Returns whether the page of this call, or exs(7), documents this error. */
static bool documented(const char *call, const char *error)
{
    char page[64], item[64];

    snprintf(page, sizeof(page), "%s.3", call);
    snprintf(item, sizeof(item), ".It Bq Er %s\n", error);
    return page_has(page, item) || page_has("exs.7", item);
}

static bool is_among(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

/* A shortage must be reported with its own errno by the process that has it, or as the end of a connection that
 * could not continue. Exceptions are documented in the thesis or the manual. */
static bool is_right(const struct attempt *attempt, const char *name, const char *call, const char *error)
{
    static const char *const shortages[] = {"ENOMEM", "EMFILE", "ENFILE", "ENOBUFS", "ENOSPC", NULL};
    static const char *const ends[] = {"ECONNRESET", "ECONNABORTED", "ETIMEDOUT", "EPIPE", "ECANCELED", NULL};
    const char *given = strerrorname_np(attempt->error);

    if (strncmp(name, "other", 5) == 0 || !is_among(given, shortages) || strcmp(given, error) == 0)
        return true;
    if (strcmp(call, "exs_qcreate") == 0)
        return strcmp(error, "EAGAIN") == 0;
    if (strcmp(call, "exs_sendfile") == 0 && strcmp(error, "EIO") == 0) /* a file could not be read further */
        return true;
    if (strcmp(call_name(attempt->call), "process_vm_readv") == 0) /* its error does not tell what it lacked */
        return true;
    return is_among(error, ends);
}

/* The text is "NAME CALL ERROR"; a name has one or two words. */
static void judge_failure(const struct run *run, struct verdict *verdict, char *text)
{
    char *error = strrchr(text, ' '), *call;

    if (verdict->failure[0] == 0)
        snprintf(verdict->failure, sizeof(verdict->failure), "%.100s", text);

    if (error == NULL)
        return;
    *error++ = 0;
    call = strrchr(text, ' ');
    if (call == NULL)
        return;
    *call++ = 0;
    if (run->attempt.passing)
        blame(verdict, "noticed: %s of the %s: %s", call, text, error);
    else if (!is_right(&run->attempt, text, call, error))
        blame(verdict, "%s of the %s: %s, which is not what failed", call, text, error);
    else if (!documented(call, error))
        blame(verdict, "%s of the %s: %s, which its page does not know", call, text, error);
}

/* ---- Resources that are left --------------------------------------------------------------------------- */

static void judge_state(const struct run *run, struct verdict *verdict, int descriptors, int threads)
{
    struct scene *scene = run->attempt.scene;

    if (run->attempt.call < 0) {
        scene->descriptors = descriptors > scene->descriptors ? descriptors : scene->descriptors;
        scene->threads = threads > scene->threads ? threads : scene->threads;
        return;
    }
    if (descriptors > scene->descriptors)
        blame(verdict, "%d descriptors are left, and else %d", descriptors, scene->descriptors);
    if (threads > scene->threads)
        blame(verdict, "%d threads are left, and else %d", threads, scene->threads);
}

static void judge_memory(const struct run *run, struct verdict *verdict, unsigned long place, unsigned count)
{
    struct scene *scene = run->attempt.scene;
    int i = 0;

    while (i < PLACES_MAX - 1 && scene->live[i].place != 0 && scene->live[i].place != place)
        i++;
    if (run->attempt.call < 0) {
        scene->live[i].place = place;
        scene->live[i].count = count > scene->live[i].count ? count : scene->live[i].count;
    } else if (count > (scene->live[i].place == place ? scene->live[i].count : 0)) {
        blame(verdict, "%u pieces of memory are left of place %#lx, and else %u", count, place,
              scene->live[i].place == place ? scene->live[i].count : 0);
    }
}

/* ---- Parsing ----------------------------------------------------------------------------------------- */

/* Reads up to `most` numbers from a line that starts with this word. Returns their number. */
static int numbers_of(const char *line, const char *word, unsigned long *numbers, int most)
{
    size_t length = strlen(word);
    int count = 0;
    char *end;

    if (strncmp(line, word, length) != 0)
        return 0;
    line += length;
    while (count < most) {
        while (*line != 0 && (*line < '0' || *line > '9'))
            line++;
        if (*line == 0)
            break;
        numbers[count++] = strtoul(line, &end, 0);
        line = end;
    }
    return count;
}

/* ---- The verdict --------------------------------------------------------------------------------------- */

/* The text is "NAME NUMBER": how often a function is called when nothing fails. */
static void learn_count(struct scene *scene, char *text)
{
    char *number = strchr(text, ' ');

    if (number == NULL)
        return;
    *number++ = 0;
    for (int call = 0; call_name(call) != NULL; call++)
        if (strcmp(call_name(call), text) == 0)
            scene->counts[call] = strtoul(number, NULL, 10);
}

static void judge_line(const struct run *run, struct verdict *verdict, char *line, bool *reported)
{
    unsigned long numbers[3];

    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, "torture: ", 9) != 0)
        return;
    line += 9;
    if (strncmp(line, "BAD ", 4) == 0) {
        blame(verdict, "%s", line + 4);
    } else if (strncmp(line, "failed ", 7) == 0) {
        judge_failure(run, verdict, line + 7);
    } else if (strncmp(line, "fired ", 6) == 0) {
        verdict->fired = true;
    } else if (numbers_of(line, "state ", numbers, 2) == 2) {
        judge_state(run, verdict, (int)numbers[0], (int)numbers[1]);
        *reported = true;
    } else if (numbers_of(line, "live ", numbers, 3) == 3) {
        judge_memory(run, verdict, numbers[0], (unsigned)numbers[1]);
    } else if (run->attempt.call < 0 && strncmp(line, "count ", 6) == 0) {
        learn_count(run->attempt.scene, line + 6);
    }
}

struct verdict run_judge(struct run *run, int status, const struct rusage *used)
{
    struct verdict verdict = {.good = true};
    struct scene *scene = run->attempt.scene;
    double seconds = (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
                     1e-6 * (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
    char line[LONGEST_LINE];
    bool reported = false;
    FILE *output = fdopen(dup(run->output), "r");

    rewind(output);
    while (fgets(line, sizeof(line), output) != NULL)
        judge_line(run, &verdict, line, &reported);
    fclose(output);
    if (run->overdue)
        blame(&verdict, "it had to be killed");
    if (WIFSIGNALED(status))
        blame(&verdict, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        blame(&verdict, "exit status %d", WEXITSTATUS(status));
    if (!reported)
        blame(&verdict, "it did not come to its end");
    if (run->attempt.call < 0)
        scene->seconds = seconds > scene->seconds ? seconds : scene->seconds;
    else if (seconds > SPIN_S && seconds > SPIN * scene->seconds)
        blame(&verdict, "it spins: %.1f s of processor time", seconds);
    return verdict;
}
