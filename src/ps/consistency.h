/* consistency.h — admission of a pull (BSP, SSP, ASP): a pure function of vector clocks.
 *
 * The vector clock of a slot has, for each rank, the seq of its push that was applied last; a seq is a step and an
 * index within it, and the last seq of a step, its end-of-step, ends the step.
 *
 *   ASP  at once
 *   SSP  when the slowest rank has ended the step `step - bound`, for a rank that has ended `step` itself
 *   BSP  with exactly the version that is named: the current one, or the one before, which is kept
 *
 * A rank that has left pushes the first seq of its next step, which no push of a step has (seq_left): SSP does not wait
 * for it. Its next push of any step counts it again. So leaving is a push like any other: it is acknowledged,
 * replicated, and part of a checkpoint.
 *
 * A reader (cluster_map.h) has no step, and no rank waits for it. In BSP it pulls CONSISTENCY_NEWEST, whatever that is
 * in the slot, and then by its number (kv/client/reader_pull.h).
 *
 * Except in BSP the answer must also include what the requester knows: its own last acknowledged seq, and the last lsn
 * in an answer to it. So no rank gets an older state than it has seen.
 *
 * Rounds are a property of the slot. The allowed staleness is a property of the pull, which names the step that it
 * needs (consistency_needs): so tables of ASP and of SSP with any bounds share the same slots. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum consistency_kind { CONSISTENCY_ASP, CONSISTENCY_SSP, CONSISTENCY_BSP } consistency_kind;

/* largest bound of SSP; size of a text, its terminating NUL included */
enum { CONSISTENCY_BOUND_MAX = 1 << 20, CONSISTENCY_TEXT = 16 };

typedef struct consistency {
    consistency_kind kind;
    uint32_t bound; /* staleness bound of SSP, in steps */
} consistency;

/* Parses "bsp", "asp" or "ssp:BOUND". False: the text is none of these. */
bool consistency_parse(const char *text, consistency *out);
void consistency_write(consistency consistency, char out[CONSISTENCY_TEXT]);

/* The step that all ranks must have ended before a pull of a rank that has ended `step` is answered; 0: none. Not for
 * BSP. */
static inline uint64_t consistency_needs(consistency consistency, uint64_t step) {
    return consistency.kind == CONSISTENCY_SSP && step > consistency.bound ? step - consistency.bound : 0;
}

/* ---- Sequence numbers: larger is later; 0 is none. Steps count from 1. */

enum { SEQ_PART_BITS = 24, SEQ_TICK = (1 << SEQ_PART_BITS) - 1 };

static inline uint64_t seq_of(uint64_t step, uint32_t part) { return step << SEQ_PART_BITS | part; }
static inline uint64_t seq_tick(uint64_t step) { return seq_of(step, SEQ_TICK); }
static inline uint64_t seq_step(uint64_t name) { return name >> SEQ_PART_BITS; }

/* The last ended step, given the last seq. */
static inline uint64_t seq_ended(uint64_t name) {
    return (name & SEQ_TICK) == SEQ_TICK ? seq_step(name) : seq_step(name) == 0 ? 0 : seq_step(name) - 1;
}

/* The seq with which a rank leaves after this step. */
static inline uint64_t seq_left(uint64_t step) { return seq_of(step + 1, 0); }
static inline bool seq_is_left(uint64_t name) { return name != 0 && (name & SEQ_TICK) == 0; }

/* The last step that every rank has ended that has not left; UINT64_MAX: all have left. */
uint64_t consistency_slowest(const uint64_t *names, size_t rank_count);

typedef struct consistency_state { /* applied state of a slot */
    const uint64_t *names;         /* vector clock, by rank; not for BSP */
    size_t rank_count;
    uint64_t lsn, version;
    bool counted; /* `slowest` is computed: once for many pulls, when the first of them needs it */
    uint64_t slowest;
} consistency_state;

#define CONSISTENCY_NEWEST UINT64_MAX /* of a pull in BSP: the version that the slot has */

typedef struct consistency_pull {
    uint32_t rank;      /* from rank_count on: a reader */
    uint64_t step;      /* step that all ranks must have ended; in BSP the version */
    uint64_t name, lsn; /* last acknowledged seq and lsn that the requester knows */
} consistency_pull;

typedef enum consistency_verdict {
    CONSISTENCY_NOW,
    CONSISTENCY_KEPT, /* answered now, from the kept previous version */
    CONSISTENCY_WAIT,
    CONSISTENCY_NEVER /* that version is gone */
} consistency_verdict;

/* `rounds`: the slot has BSP rounds. */
consistency_verdict consistency_judge(bool rounds, consistency_state *state, const consistency_pull *pull);
