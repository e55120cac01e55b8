/* SPDX-License-Identifier: BSD-2-Clause */
/* ops.c - parses operations of the command line, and checks their restrictions; see ops.h. */
#include "ops.h"

#include <stdio.h>
#include <string.h>
#include "tools/common/options.h"
#include "say.h"

enum { SYNC_SIZE = 64 }; /* bytes of an operation that validation adds */

static const char *const letters[] = {"SR", "RR", "RW"};

/* The remaining words of the command line. */
struct words {
    char **word;
    int count;
};

static const char *next_word(struct words *words)
{
    if (words->count == 0)
        return NULL;
    words->count--;
    return *words->word++;
}

static bool parse_transfer(struct op *op, const char *word)
{
    for (int i = 0; word != NULL && i < 3; i++) {
        if (strcmp(word, letters[i]) == 0) {
            op->transfer = (enum transfer)i;
            return true;
        }
    }
    complain("operation: want SR, RR or RW, not '%s'", word != NULL ? word : "the end of the line");
    return false;
}

/* Parses the next word if it is a number. */
static bool parse_number(struct words *words, const char *what, uint32_t most, uint32_t *value)
{
    if (words->count == 0 || words->word[0][0] < '0' || words->word[0][0] > '9')
        return true;
    long number = options_number(words->word[0], 1, most);

    if (number < 0) {
        complain("operation: %s from 1 to %u, not '%s'", what, most, words->word[0]);
        return false;
    }
    *value = (uint32_t)number;
    next_word(words);
    return true;
}

static bool parse_rest(struct op *op, struct words *words)
{
    op->size = SIZE_DEFAULT;
    op->segments = 1;
    if (!parse_transfer(op, next_word(words)) ||
        !parse_number(words, "segment size", SIZE_MAX_OF_OP, &op->size) ||
        !parse_number(words, "segments", SEGMENTS_MAX, &op->segments))
        return false;
    if (!op_is_possible(op)) {
        complain("operation: %zu bytes are more than the %d that one may have", op_bytes(op), SIZE_MAX_OF_OP);
        return false;
    }
    if (words->count > 0 && strcmp(words->word[0], "-f") == 0) {
        next_word(words);
        op->deferred = true;
        if (op->transfer != SEND_RECV) {
            complain("operation: -f is for SR only: %s has no receive at the other end to be paired with",
                     letters[op->transfer]);
            return false;
        }
    }
    return true;
}

bool ops_parse(struct ops *ops, char **words, int count)
{
    struct words left = {words, count};

    while (left.count > 0) {
        const char *who = next_word(&left);
        bool by_server = strcmp(who, "server") == 0;

        if (!by_server && strcmp(who, "client") != 0) {
            complain("operation: want client or server to begin it, not '%s'", who);
            return false;
        }
        if (ops->count == OPS_MAX) {
            complain("operation: more than %d", OPS_MAX);
            return false;
        }
        struct op *op = &ops->op[ops->count++];

        *op = (struct op){.by_server = by_server};
        if (!parse_rest(op, &left))
            return false;
    }
    return true;
}

bool ops_parse_one(struct op *op, char **words, int count)
{
    struct words left = {words, count};

    *op = (struct op){0};
    if (!parse_rest(op, &left))
        return false;
    if (op->deferred || left.count > 0) {
        complain("operation: a performance test has one, RR, RW or SR [size [segments]]: '%s' is too much",
                 op->deferred ? "-f" : left.word[0]);
        return false;
    }
    return true;
}

bool op_is_possible(const struct op *op)
{
    return op->transfer <= REMOTE_WRITE && op->size > 0 && op->segments > 0 && op->segments <= SEGMENTS_MAX &&
           op_bytes(op) <= SIZE_MAX_OF_OP && (!op->deferred || op->transfer == SEND_RECV);
}

/* Whether each client operation with -f is followed by a server operation with -f, in pairs. */
static bool deferred_in_pairs(const struct ops *ops)
{
    bool open = false;

    for (int i = 0; i < ops->count; i++) {
        if (!ops->op[i].deferred)
            continue;
        if (ops->op[i].by_server != open)
            return false;
        open = !open;
    }
    return !open;
}

bool ops_check(const struct ops *ops, const char **why)
{
    int sends[2] = {0, 0};

    for (int i = 0; i < ops->count; i++)
        sends[ops->op[i].by_server] += ops->op[i].transfer == SEND_RECV;
    *why = NULL;
    if (ops->count == 0)
        *why = "a transaction test needs operations: client|server SR|RR|RW [size [segments]] [-f] ...";
    else if (!deferred_in_pairs(ops))
        *why = "unbalanced -f: each of a client is to be followed by one of a server, in that order";
    else if (sends[0] == 0 || sends[1] == 0)
        *why = "a transaction test needs at least one 'server SR' and one 'client SR', which keep the ends in "
               "step; -V adds them";
    return *why == NULL;
}

void ops_add_validation(struct ops *ops)
{
    for (int i = 0; i < OPS_ADDED; i++)
        ops->op[ops->count++] =
            (struct op){.by_server = i != 1, .transfer = SEND_RECV, .size = SYNC_SIZE, .segments = 1};
}

const char *op_letters(const struct op *op)
{
    return letters[op->transfer];
}

const char *op_text(const struct op *op, char out[64])
{
    static const char *const names[] = {"SEND_RECV", "RDMA_READ", "RDMA_WRITE"};

    snprintf(out, 64, "%s (%s) %u x %u%s", names[op->transfer], op->by_server ? "server" : "client", op->size,
             op->segments, op->deferred ? " -f" : "");
    return out;
}
