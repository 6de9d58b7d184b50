/* reader_pull.h — pull of a reader from slots with rounds: repeated until all its answers show one version.
 *
 * A rank pulls the version of its step, and no round goes on without the rank. No round waits for a reader, so a
 * version may be gone when the reader's question arrives: a slot keeps the current version and the one before.
 *
 *   asks for the newest    every slot answers with the version that it has
 *     ── one version ──────────────────────────► done
 *     ── two versions or more ─────────────────► asks for the one before the newest of them
 *   asks for that version
 *     ── all answers ──────────────────────────► done
 *     ── a slot is already two rounds further ─► asks for the newest again
 *
 * A round closes only when every slot has closed the round before. So every slot has the version before one that any
 * slot has: no question waits for a rank, and a version that every slot had when the pull was made is shown, or a later
 * one. A slot that is asked several times, since the answer is large, is asked for the version of its first answer.
 *
 * The queries of an attempt are kept (`batches`) and asked again. An attempt that has failed asks no further queries,
 * and the next one begins when its last answer has arrived.
 *
 * Pure: the kv_worker asks (kv_worker_reads.c). */
#pragma once
#include "kv/client/ticket.h"

typedef struct reader_pull {
    list link;      /* of all pulls of the worker */
    ticket *ticket; /* one of its parts is the pull's own, until the end */
    bool abandoned; /* the destination may be gone: the pull is not repeated */
    bool cut;       /* unsent queries of the failed attempt were dropped */
    bool gone;      /* a slot no longer has the version */
    uint64_t asked; /* version of this attempt, or CONSISTENCY_NEWEST */
    uint64_t least,
        most; /* versions of this attempt's answers; `most`: also of slots that have no longer the version */
    uint64_t repeats;
    list batches; /* answered queries (slot_queue.h), owned */
} reader_pull;

void reader_pull_init(reader_pull *pull, ticket *ticket);

/* A slot has answered with this version; or the version is gone, and the slot has this one. */
void reader_pull_answered(reader_pull *pull, uint64_t version);
void reader_pull_gone(reader_pull *pull, uint64_t version);

bool reader_pull_fails(const reader_pull *pull); /* the answers of this attempt are not of one version */

/* Begins the next attempt; returns its version. */
uint64_t reader_pull_repeat(reader_pull *pull);
