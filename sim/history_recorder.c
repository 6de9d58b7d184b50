/* history_recorder.c — see history_recorder.h. */
#include "sim/history_recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct question { /* a request without an answer yet */
    history_recorder_book *book;
    linearizability_history *history;
    size_t look, swap; /* a swap has both: its refusal shows the newest version, as a look does */
    uint64_t expected;
    metadata_store_done_fn *done;
    void *argument;
} question;

static linearizability_history *history_of(history_recorder_book *book, const char *key) {
    size_t at = 0;
    while (at < book->count && strcmp(book->keys[at].key, key) != 0) at++;
    MR_ASSERT(at < HISTORY_RECORDER_KEYS_MAX);
    if (at == book->count) snprintf(book->keys[book->count++].key, sizeof book->keys->key, "%s", key);
    return &book->keys[at].history;
}

static void on_answer(void *argument, const metadata_store_answer *answer) {
    question *question = argument;
    bool stale = answer->status == MR_STALE;
    if (stale && answer->version == question->expected)
        sim_violation(question->book->sim, "a swap from the newest version is refused");
    if (answer->status == MR_OK || stale)
        linearizability_answer(question->history, stale ? question->look : question->swap, answer->version,
                               sim_now_us(question->book->sim));
    metadata_store_done_fn *done = question->done;
    void *asker = question->argument;
    free(question);
    done(asker, answer);
}

static question *write_down(history_recorder *recorder, const char *key, linearizability_kind kind, uint64_t expected,
                            metadata_store_done_fn *done, void *argument) {
    question *question = xcalloc(1, sizeof *question);
    question->book = recorder->book;
    question->history = history_of(recorder->book, key);
    question->expected = expected;
    question->look = question->swap =
        linearizability_ask(question->history, LINEARIZABILITY_LOOK, 0, sim_now_us(recorder->book->sim));
    if (kind == LINEARIZABILITY_SWAP)
        question->swap =
            linearizability_ask(question->history, LINEARIZABILITY_SWAP, expected, sim_now_us(recorder->book->sim));
    question->done = done;
    question->argument = argument;
    return question;
}

static void get(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    history_recorder *recorder = self;
    question *question = write_down(recorder, key, LINEARIZABILITY_LOOK, 0, done, argument);
    recorder->store.ops->get(recorder->store.self, key, known, on_answer, question);
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                 metadata_store_done_fn *done, void *argument) {
    history_recorder *recorder = self;
    question *question = write_down(recorder, key, LINEARIZABILITY_SWAP, expected, done, argument);
    recorder->store.ops->compare_and_swap(recorder->store.self, key, expected, value, lease, on_answer, question);
}

static const metadata_store_ops ops = {.name = "witness", .get = get, .compare_and_swap = swap};

metadata_store history_recorder_metadata(history_recorder *recorder) { return (metadata_store){&ops, recorder}; }

void history_recorder_book_fini(history_recorder_book *book) {
    for (size_t i = 0; i < book->count; i++) linearizability_fini(&book->keys[i].history);
}

/* A new generation begins without a value, with a number above the lost generation; a generation without a change has a
 * random number. */
static bool forgets(uint64_t version, uint64_t next) {
    bool above = metadata_store_generation(next) > metadata_store_generation(version);
    return metadata_store_count(next) == 0 && (above || metadata_store_count(version) == 0);
}

static bool loses(uint64_t version, uint64_t next) {
    return metadata_store_count(next) == 0 && metadata_store_generation(next) != metadata_store_generation(version);
}

void history_recorder_check(history_recorder_book *book) {
    for (size_t i = 0; i < book->count && !sim_failed(book->sim); i++) {
        const linearizability_history *history = &book->keys[i].history;
        sim_count(book->sim, "questions", history->count);
        if (!linearizability_check(history, 0, book->loses ? loses : forgets))
            sim_violation(book->sim, "the answers to %zu questions for '%s' are not those of one value", history->count,
                          book->keys[i].key);
    }
}
