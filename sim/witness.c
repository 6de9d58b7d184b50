/* witness.c — see witness.h. */
#include "sim/witness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct question { /* until it is answered */
    witness_book *book;
    lin_history *history;
    size_t look, swap; /* of a swap both: it is decided, or what is there is shown */
    uint64_t expected;
    coordinator_done_fn *done;
    void *argument;
} question;

static lin_history *history_of(witness_book *book, const char *key) {
    size_t at = 0;
    while (at < book->count && strcmp(book->keys[at].key, key) != 0) at++;
    MR_ASSERT(at < WITNESS_KEYS_MAX);
    if (at == book->count) snprintf(book->keys[book->count++].key, sizeof book->keys->key, "%s", key);
    return &book->keys[at].history;
}

static void on_answer(void *argument, const coordinator_answer *answer) {
    question *question = argument;
    bool stale = answer->status == MR_STALE;
    if (stale && answer->version == question->expected)
        sim_violation(question->book->sim, "a swap from the newest version is refused");
    if (answer->status == MR_OK || stale)
        lin_answer(question->history, stale ? question->look : question->swap, answer->version,
                   sim_now_us(question->book->sim));
    coordinator_done_fn *done = question->done;
    void *asker = question->argument;
    free(question);
    done(asker, answer);
}

static question *write_down(witness *witness, const char *key, lin_kind kind, uint64_t expected,
                            coordinator_done_fn *done, void *argument) {
    question *question = xcalloc(1, sizeof *question);
    question->book = witness->book;
    question->history = history_of(witness->book, key);
    question->expected = expected;
    question->look = question->swap = lin_ask(question->history, LIN_LOOK, 0, sim_now_us(witness->book->sim));
    if (kind == LIN_SWAP)
        question->swap = lin_ask(question->history, LIN_SWAP, expected, sim_now_us(witness->book->sim));
    question->done = done;
    question->argument = argument;
    return question;
}

static void get(void *self, const char *key, uint64_t known, coordinator_done_fn *done, void *argument) {
    witness *witness = self;
    question *question = write_down(witness, key, LIN_LOOK, 0, done, argument);
    witness->coordinator.ops->get(witness->coordinator.self, key, known, on_answer, question);
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease, coordinator_done_fn *done,
                 void *argument) {
    witness *witness = self;
    question *question = write_down(witness, key, LIN_SWAP, expected, done, argument);
    witness->coordinator.ops->compare_and_swap(witness->coordinator.self, key, expected, value, lease, on_answer,
                                               question);
}

static const coordinator_ops ops = {.name = "witness", .get = get, .compare_and_swap = swap};

coordinator witness_coordinator(witness *witness) { return (coordinator){&ops, witness}; }

void witness_book_fini(witness_book *book) {
    for (size_t i = 0; i < book->count; i++) lin_fini(&book->keys[i].history);
}

/* A generation begins without a value, above the one that is forgotten; before the first change it is only a draw. */
static bool forgets(uint64_t version, uint64_t next) {
    bool above = coordinator_generation(next) > coordinator_generation(version);
    return coordinator_count(next) == 0 && (above || coordinator_count(version) == 0);
}

static bool loses(uint64_t version, uint64_t next) {
    return coordinator_count(next) == 0 && coordinator_generation(next) != coordinator_generation(version);
}

void witness_check(witness_book *book) {
    for (size_t i = 0; i < book->count && !sim_failed(book->sim); i++) {
        const lin_history *history = &book->keys[i].history;
        sim_count(book->sim, "questions", history->count);
        if (!lin_check(history, 0, book->loses ? loses : forgets))
            sim_violation(book->sim, "the answers to %zu questions for '%s' are not those of one value", history->count,
                          book->keys[i].key);
    }
}
