/* SPDX-License-Identifier: BSD-2-Clause */
/* program.c - programs: makes them from a seed, prints one step per line, and reads them. See model.h. */
#include "model.h"

#define MOST_STEPS 90
#define LETTERS "WDPURLZEAN" /* of the flags, in the order of their bits */

const char *const verb_names[VERBS] = {"connect",  "send",    "recv",   "sendmsg",  "recvmsg", "sendfile",
                                       "recvfile", "rwrite",  "rread",  "shutdown", "cancel",  "option",
                                       "close",    "dequeue", "status", "settle"};

/* How often each verb is chosen, relative to the sum */
static const unsigned shares[VERBS] = {5, 20, 20, 6, 6, 5, 5, 4, 4, 2, 5, 2, 2, 18, 4, 6};
/* Flags that a step may have, each once in `of` steps */
static const struct {
    unsigned flag, of;
} often[] = {{WAITALL, 4},  {DONTWAIT, 6}, {PEEK, 8},  {UNSIGNALED, 8}, {REGISTERED, 3},
             {LINGERS, 20}, {CUTS, 4},     {ENDS, 12}, {ALL, 3},        {NO_QUEUE, 4}};
static const unsigned can_have[VERBS] = {
    [SEND] = DONTWAIT | UNSIGNALED | REGISTERED | NO_QUEUE,
    [RECV] = WAITALL | DONTWAIT | PEEK | REGISTERED,
    [SENDMSG] = DONTWAIT | UNSIGNALED | REGISTERED,
    [RECVMSG] = WAITALL | DONTWAIT | PEEK | REGISTERED,
    [SENDFILE] = UNSIGNALED | REGISTERED | ENDS,
    [RECVFILE] = REGISTERED,
    [RWRITE] = UNSIGNALED | REGISTERED,
    [RREAD] = REGISTERED,
    [CANCEL] = ALL,
    [CLOSE] = LINGERS | CUTS | NO_QUEUE,
};

static enum verb choose(struct chance *chance)
{
    unsigned sum = 0, verb = 0;

    for (int i = 0; i < VERBS; i++)
        sum += shares[i];
    size_t at = chance_below(chance, sum);
    for (; at >= shares[verb]; verb++)
        at -= shares[verb];
    return (enum verb)verb;
}

static struct step step_make(struct chance *chance, enum verb verb)
{
    struct step step = {
        .verb = verb,
        .pair = chance_below(chance, 3) == 0,
        .end = (unsigned)chance_below(chance, 2),
        .queue = chance_below(chance, 4) == 0,
        .length = chance_size(chance, 1, chance_below(chance, 3) ? 16 * KIB : LARGEST),
        .detail = (unsigned)chance_below(chance, 1000),
    };

    for (int i = 0; i < COUNT(often); i++)
        if ((can_have[verb] & often[i].flag) && chance_below(chance, often[i].of) == 0)
            step.flags |= often[i].flag;
    if (step.flags & DONTWAIT) /* without an event the application would not know how much was sent */
        step.flags &= ~(unsigned)UNSIGNALED;
    if (verb == SEND && !(step.flags & UNSIGNALED))
        step.flags &= ~(unsigned)NO_QUEUE;
    return step;
}

void program_make(struct program *program, uint64_t seed)
{
    struct chance chance = {.state = seed};
    int count = 10 + (int)chance_below(&chance, MOST_STEPS - 10);

    program->count = 0;
    program->steps[program->count++] = step_make(&chance, CONNECT);
    program->steps[0].pair = 0;
    while (program->count < count) {
        struct step step = step_make(&chance, choose(&chance));
        program->steps[program->count++] = step;
    }
}

void program_print(FILE *to, const struct program *program)
{
    for (int i = 0; i < program->count; i++) {
        const struct step *step = &program->steps[i];
        char flags[sizeof LETTERS + 1] = "-";
        int used = 0;

        for (unsigned f = 0; f < sizeof LETTERS - 1; f++)
            if (step->flags & 1u << f) {
                flags[used++] = LETTERS[f];
                flags[used] = 0;
            }
        fprintf(to, "%s %u %c q%u %s %zu %u\n", verb_names[step->verb], step->pair, "ab"[step->end],
                step -> queue, flags, step -> length, step -> detail);
    }
}

/* Returns the next word of a line, or "" at its end. */
static const char *word(char **rest)
{
    const char *next = strtok_r(NULL, " \n", rest);

    return next ? next : "";
}

static bool flags_read(const char *letters, unsigned *flags)
{
    *flags = 0;
    for (const char *c = letters; *c && strcmp(letters, "-") != 0; c++) {
        const char *letter = strchr(LETTERS, *c);
        if (!letter)
            return false;
        *flags |= 1u << (letter - LETTERS);
    }
    return true;
}

static bool step_read(char *line, struct step *step)
{
    char *rest;
    const char *verb = strtok_r(line, " \n", &rest);

    for (step->verb = CONNECT; verb && step->verb < VERBS && strcmp(verb, verb_names[step->verb]) != 0;
         step->verb++)
        continue;
    step->pair = (unsigned)strtoul(word(&rest), NULL, 10);
    step->end = word(&rest)[0] == 'b';
    const char *queue = word(&rest);
    step->queue = queue[0] == 'q' ? (unsigned)strtoul(queue + 1, NULL, 10) : QUEUES;
    bool good = flags_read(word(&rest), &step->flags);
    step->length = strtoul(word(&rest), NULL, 10);
    step->detail = (unsigned)strtoul(word(&rest), NULL, 10);
    return good && verb && step->verb < VERBS && step->pair < PAIRS && step->queue < QUEUES &&
           step->length > 0 && step->length <= LARGEST;
}

bool program_read(FILE *from, struct program *program)
{
    char line[200];

    program->count = 0;
    while (fgets(line, sizeof line, from)) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (program->count == STEPS_MAX || !step_read(line, &program->steps[program->count++]))
            return false;
    }
    return program->count > 0;
}
