/* checkpointer.c — see checkpointer.h. */
#include "ps/checkpointer.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/mutation.h"
#include "ps/replica_log.h"

void checkpointer_fini(checkpointer *checkpointer) {
    quiesce_fini(&checkpointer->quiesce);
    free(checkpointer->has_cut);
    checkpointer->has_cut = NULL;
}

void checkpointer_check(const checkpointer *checkpointer) {
    uint32_t cut = 0;
    bool still = checkpointer->phase == CHECKPOINTER_PAUSING || checkpointer->phase == CHECKPOINTER_CUTTING;
    MR_ASSERT(checkpointer->phase == CHECKPOINTER_RESTING || checkpointer->wanted != 0);                    /* 1 */
    MR_ASSERT(checkpointer->phase == CHECKPOINTER_RESTING || still == (checkpointer->quiesce.number != 0)); /* 2 */
    quiesce_check(&checkpointer->quiesce);                                                                  /* 2 */
    for (uint32_t i = 0; checkpointer->has_cut != NULL && i < checkpointer->slot_count; i++)
        cut += checkpointer->has_cut[i];
    MR_ASSERT(cut == checkpointer->cut_count && cut <= checkpointer->slot_count);                               /* 3 */
    MR_ASSERT((checkpointer->heard || !checkpointer->made) && checkpointer->failures <= CHECKPOINTER_REST_MAX); /* 4 */
}

void checkpointer_want(checkpointer *checkpointer) {
    if (checkpointer->wanted != 0) return;
    checkpointer->wanted = checkpointer->newest + 1;
    checkpointer->begun = checkpointer->asked = false;
}

/* `now`: this version is cut, or the round state is asked for it. `version`: 1 + that version, or the version of the
 * slots with rounds in this checkpoint; 0: there is none. */
static void order_slot(const checkpointer *checkpointer, const cluster_map *map, batcher *batcher, uint32_t slot,
                       uint64_t version, bool now) {
    MR_ASSERT(slot < map->slot_count && checkpointer->wanted != 0);
    const cluster_map_slot *chain = &map->slots[slot];
    const cluster_map_server *head = chain->count == 0 ? NULL : cluster_map_find(map, chain->chain[0].server);
    if (head == NULL) return;
    batcher_add(batcher, head->address,
                &(slot_message){.kind = SLOT_MESSAGE_ORDER,
                                .entry = REPLICA_LOG_MARK,
                                .slot = slot,
                                .epoch = chain->epoch,
                                .lsn = version,
                                .name = checkpointer->wanted,
                                .prev = now ? SLOT_MESSAGE_MARK_NOW : 0});
}

static uint64_t higher(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* CHECKPOINTER_SIGNS reports without progress arrived, and the time is over. */
static bool has_lost_patience(const checkpointer *checkpointer, int64_t now_us) {
    return checkpointer->begun && now_us >= checkpointer->until_us && checkpointer->signs >= CHECKPOINTER_SIGNS;
}

static void begin_patience(checkpointer *checkpointer, int64_t now_us) {
    if (checkpointer->begun) return;
    checkpointer->until_us = now_us + CHECKPOINTER_PATIENCE_US;
    checkpointer->signs = 0;
    checkpointer->begun = true;
}

void checkpointer_excuse(checkpointer *checkpointer) { checkpointer->begun = false; }

/* No slot has cut yet, of as many slots as the cluster map has. */
static void forget_cuts(checkpointer *checkpointer, const cluster_map *map) {
    free(checkpointer->has_cut);
    checkpointer->has_cut = xcalloc(map->slot_count + 1, sizeof *checkpointer->has_cut);
    checkpointer->slot_count = map->slot_count;
    checkpointer->cut_count = 0;
}

static void note_cut(checkpointer *checkpointer, uint32_t slot) {
    checkpointer->cut_count += !checkpointer->has_cut[slot];
    checkpointer->has_cut[slot] = true;
}

/* ---- Exact checkpoints. */

/* Ends the pause, if there is one. */
static void end_pause(checkpointer *checkpointer, batcher *batcher, quiesce_workers workers, int64_t now_us) {
    if (checkpointer->quiesce.number == 0) return;
    quiesce_tell(&checkpointer->quiesce, batcher, workers, true);
    quiesce_fini(&checkpointer->quiesce);
    checkpointer->free_us = now_us + (now_us - checkpointer->since_us);
}

/* Ends the attempt: ranks train for a while, then the next checkpoint number is tried. */
static void give_up(checkpointer *checkpointer, batcher *batcher, quiesce_workers workers, int64_t now_us) {
    end_pause(checkpointer, batcher, workers, now_us);
    checkpointer->phase = CHECKPOINTER_RESTING;
    checkpointer->until_us = now_us + (checkpointer->pause_us << checkpointer->failures);
    if (checkpointer->failures < CHECKPOINTER_REST_MAX) checkpointer->failures++;
    checkpointer->wanted++;
}

static void begin_pause(checkpointer *checkpointer, const cluster_map *map, int64_t now_us) {
    MR_ASSERT(checkpointer->phase == CHECKPOINTER_RESTING && checkpointer->exact && checkpointer->wanted != 0);
    checkpointer->pauses = higher(checkpointer->pauses + 1, checkpointer->wanted);
    quiesce_begin(&checkpointer->quiesce, checkpointer->pauses, map);
    forget_cuts(checkpointer, map);
    checkpointer->phase = CHECKPOINTER_PAUSING;
    checkpointer->since_us = now_us;
    checkpointer->until_us = now_us + checkpointer->pause_us;
    checkpointer->press_us = now_us + clock_earlier_us(checkpointer->pause_us / 2, CHECKPOINTER_PRESS_US);
}

static void order_cuts(checkpointer *checkpointer, const cluster_map *map, batcher *batcher, quiesce_workers workers,
                       int64_t now_us) {
    MR_ASSERT(checkpointer->phase == CHECKPOINTER_CUTTING && checkpointer->slot_count <= map->slot_count);
    for (uint32_t i = 0; i < checkpointer->slot_count; i++)
        if (!checkpointer->has_cut[i]) order_slot(checkpointer, map, batcher, i, 0, false);
    if (checkpointer->cut_count < checkpointer->slot_count) return;
    end_pause(checkpointer, batcher, workers, now_us);
    checkpointer->phase = CHECKPOINTER_SAVING;
    checkpointer->begun = false;
}

static void order_exact(checkpointer *checkpointer, const cluster_map *map, batcher *batcher, quiesce_workers workers,
                        int64_t now_us) {
    bool saves = checkpointer->phase == CHECKPOINTER_SAVING; /* ranks train in this phase */
    bool due = saves ? has_lost_patience(checkpointer, now_us) : now_us >= checkpointer->until_us;
    if (checkpointer->phase != CHECKPOINTER_RESTING && due) {
        give_up(checkpointer, batcher, workers, now_us);
        return;
    }
    if (saves) {
        begin_patience(checkpointer, now_us);
        return;
    }
    if (checkpointer->phase == CHECKPOINTER_RESTING && due && now_us >= checkpointer->free_us)
        begin_pause(checkpointer, map, now_us);
    if (checkpointer->phase == CHECKPOINTER_RESTING) return;
    if (checkpointer->phase == CHECKPOINTER_PAUSING && quiesce_is_still(&checkpointer->quiesce, map, workers))
        checkpointer->phase = CHECKPOINTER_CUTTING;
    if (checkpointer->phase == CHECKPOINTER_PAUSING && now_us >= checkpointer->press_us)
        quiesce_press(&checkpointer->quiesce);
    quiesce_tell(&checkpointer->quiesce, batcher, workers, false);
    if (checkpointer->phase == CHECKPOINTER_CUTTING) order_cuts(checkpointer, map, batcher, workers, now_us);
}

/* A cut with a higher number than the wanted one belongs to an earlier attempt: the attempt restarts above that
 * number. */
static void take_exact(checkpointer *checkpointer, const slot_message *message) {
    if (checkpointer->phase != CHECKPOINTER_CUTTING || message->slot >= checkpointer->slot_count ||
        message->lsn < checkpointer->wanted)
        return;
    if (message->lsn > checkpointer->wanted) {
        checkpointer->wanted = message->lsn + 1;
        checkpointer->cut_count = 0;
        for (uint32_t i = 0; i < checkpointer->slot_count; i++) checkpointer->has_cut[i] = false;
        return;
    }
    note_cut(checkpointer, message->slot);
}

/* A worker that reports a later pause, of an earlier controller, makes the pause begin again with a higher number. */
static void take_paused(checkpointer *checkpointer, const cluster_map *map, const slot_message *message) {
    uint64_t above;
    quiesce_take(&checkpointer->quiesce, map, message, &above);
    if (above < checkpointer->pauses || checkpointer->phase != CHECKPOINTER_PAUSING) return;
    checkpointer->pauses = above + 1;
    quiesce_begin(&checkpointer->quiesce, checkpointer->pauses, map);
}

/* The wanted checkpoint is complete while workers are still paused: the store's report came before the heads'. */
static bool is_over(const checkpointer *checkpointer) {
    return checkpointer->phase == CHECKPOINTER_RESTING && checkpointer->quiesce.number != 0;
}

bool checkpointer_moves(const checkpointer *checkpointer, const cluster_map *map, quiesce_workers workers) {
    if (is_over(checkpointer)) return true;
    if (checkpointer->phase == CHECKPOINTER_CUTTING) return checkpointer->cut_count == checkpointer->slot_count;
    return checkpointer->phase == CHECKPOINTER_PAUSING && quiesce_is_still(&checkpointer->quiesce, map, workers);
}

/* ---- With rounds. */

static bool stand_still(const checkpointer *checkpointer, const cluster_map *map, quiesce_workers workers,
                        int64_t now_us) {
    if (checkpointer->cut == checkpointer->wanted || MUTATED("rounds-only")) return false;
    return now_us - checkpointer->asked_us >= CHECKPOINTER_STILL_US || !quiesce_has_ranks(map, workers);
}

/* Ranks may train again: the next round that ends is cut. */
static void let_rounds_end(checkpointer *checkpointer) { checkpointer->now = checkpointer->asked = false; }

static bool is_ordered(const checkpointer *checkpointer, const cluster_map *map, uint32_t slot) {
    return !checkpointer->has_cut[slot] && (cluster_map_in_rounds(map, slot) || slot == checkpointer->round_state);
}

static void order_now(checkpointer *checkpointer, const cluster_map *map, batcher *batcher) {
    uint64_t version = checkpointer->now_version;
    if (version == 0) order_slot(checkpointer, map, batcher, checkpointer->round_state, 0, true);
    for (uint32_t i = 0; version != 0 && i < checkpointer->slot_count && i < map->slot_count; i++)
        if (is_ordered(checkpointer, map, i)) order_slot(checkpointer, map, batcher, i, version, true);
}

static void order_rounds(checkpointer *checkpointer, const cluster_map *map, batcher *batcher, quiesce_workers workers,
                         int64_t now_us) {
    checkpointer->round_state = cluster_map_round_state(map);
    if (has_lost_patience(checkpointer, now_us)) {
        checkpointer->wanted++;
        let_rounds_end(checkpointer);
        checkpointer->begun = false;
    }
    begin_patience(checkpointer, now_us);
    if (!checkpointer->asked) checkpointer->asked_us = now_us;
    checkpointer->asked = true;
    if (!checkpointer->now && stand_still(checkpointer, map, workers, now_us)) {
        forget_cuts(checkpointer, map);
        checkpointer->now = true;
        checkpointer->now_version = 0;
    }
    if (checkpointer->now)
        order_now(checkpointer, map, batcher);
    else
        order_slot(checkpointer, map, batcher, checkpointer->round_state, 0, false);
    bool cut = checkpointer->cut == checkpointer->wanted || MUTATED("mark-early");
    for (uint32_t i = 0; cut && i < map->slot_count; i++)
        if (i != checkpointer->round_state && !cluster_map_in_rounds(map, i))
            order_slot(checkpointer, map, batcher, i, MUTATED("marks-once") ? 0 : checkpointer->cut_version, false);
}

/* The version that is cut is known: the checkpoint has its number if that is above the newest one, and no other version
 * was tried under it. */
static void cut_version(checkpointer *checkpointer, const cluster_map *map, uint64_t version) {
    forget_cuts(checkpointer, map);
    checkpointer->now_version = 1 + version;
    checkpointer->wanted = higher(higher(checkpointer->newest, checkpointer->tried) + 1, version);
    checkpointer->tried = checkpointer->wanted;
}

/* The round state has cut a version for this checkpoint. */
static void note_version(checkpointer *checkpointer, uint64_t checkpoint, uint64_t version) {
    checkpointer->cut = checkpoint;
    checkpointer->cut_version = version;
}

/* The answer to a question for the open version, or to an order to cut one. */
static void take_now(checkpointer *checkpointer, const cluster_map *map, const slot_message *message) {
    uint64_t open = 1 + message->lsn;
    if (!checkpointer->now || message->slot >= checkpointer->slot_count) return;
    if (checkpointer->now_version == 0) {
        if (message->slot == checkpointer->round_state) cut_version(checkpointer, map, message->lsn);
    } else if (message->name != checkpointer->wanted) {
        return; /* an answer to an earlier order */
    } else if (message->status == SLOT_MESSAGE_OK) {
        note_cut(checkpointer, message->slot);
        if (message->slot == checkpointer->round_state)
            note_version(checkpointer, message->name, checkpointer->now_version);
    } else if (open < checkpointer->now_version) {
        cut_version(checkpointer, map, message->lsn);
    } else if (open > checkpointer->now_version) {
        let_rounds_end(checkpointer);
    }
}

/* ---- All checkpoints. */

void checkpointer_order(checkpointer *checkpointer, const cluster_map *map, batcher *batcher, quiesce_workers workers,
                        int64_t now_us) {
    uint32_t round_state = cluster_map_round_state(map);
    if (checkpointer->phase == CHECKPOINTER_RESTING) end_pause(checkpointer, batcher, workers, now_us);
    if (checkpointer->wanted == 0 || !checkpointer->heard) return;
    if (checkpointer->exact && round_state == NO_ROUND_STATE) {
        if (map->slot_count != 0) order_exact(checkpointer, map, batcher, workers, now_us);
        return;
    }
    if (round_state != NO_ROUND_STATE) {
        order_rounds(checkpointer, map, batcher, workers, now_us);
        return;
    }
    if (has_lost_patience(checkpointer, now_us)) {
        checkpointer->wanted++;
        checkpointer->begun = false;
    }
    begin_patience(checkpointer, now_us);
    for (uint32_t i = 0; i < map->slot_count; i++) order_slot(checkpointer, map, batcher, i, 0, false);
}

/* Paused workers learn of the new generation from the cluster map and continue by themselves. */
void checkpointer_restart(checkpointer *checkpointer) {
    if (checkpointer->wanted != 0) checkpointer->wanted = checkpointer->newest + 1;
    checkpointer->begun = false;
    let_rounds_end(checkpointer);
    note_version(checkpointer, 0, 0);
    checkpointer->newest_version = 0;
    checkpointer->phase = CHECKPOINTER_RESTING;
    checkpointer->until_us = checkpointer->free_us = 0;
    quiesce_fini(&checkpointer->quiesce);
}

static void take_ordered(checkpointer *checkpointer, const cluster_map *map, const slot_message *message) {
    if (message->prev == SLOT_MESSAGE_MARK_NOW) {
        take_now(checkpointer, map, message);
        return;
    }
    bool ends = message->status == SLOT_MESSAGE_OK && message->slot == checkpointer->round_state;
    if (checkpointer->now && ends) let_rounds_end(checkpointer);
    if (checkpointer->now && message->status == SLOT_MESSAGE_LATER) return;
    if (message->lsn > checkpointer->wanted) checkpointer->wanted = message->lsn;
    if (message->status == SLOT_MESSAGE_LATER) checkpointer->begun = false;
    if (ends) note_version(checkpointer, message->lsn, 1 + message->lsn);
}

/* Reports of progress in the wanted checkpoint restart the patience. */
static void take_sign(checkpointer *checkpointer, const slot_message *message) {
    bool moves = message->lsn != checkpointer->making || message->commit != checkpointer->saved;
    bool arrives = message->epoch != checkpointer->arrived;
    if (arrives || (moves && checkpointer->wanted != 0 && message->lsn >= checkpointer->wanted))
        checkpointer->begun = false;
    checkpointer->arrived = message->epoch;
    checkpointer->making = message->lsn;
    checkpointer->saved = message->commit;
    checkpointer->signs++;
}

/* The open version is the newest checkpoint: nothing was pushed since, unless to slots without rounds. */
static bool has_all(const checkpointer *checkpointer, const cluster_map *map, const slot_message *message) {
    return checkpointer->now && !map->mixed && message->kind == SLOT_MESSAGE_ORDERED &&
           message->entry == REPLICA_LOG_MARK && message->prev == SLOT_MESSAGE_MARK_NOW &&
           message->slot == checkpointer->round_state && checkpointer->now_version == 0 &&
           1 + message->lsn == checkpointer->newest_version;
}

static void finish(checkpointer *checkpointer) {
    checkpointer->wanted = 0;
    checkpointer->failures = 0;
    checkpointer->phase = CHECKPOINTER_RESTING;
    checkpointer->until_us = 0;
    let_rounds_end(checkpointer);
}

bool checkpointer_take(checkpointer *checkpointer, const cluster_map *map, const slot_message *message) {
    if (checkpointer->wanted != 0 && has_all(checkpointer, map, message)) {
        finish(checkpointer);
        return true;
    }
    bool exact = checkpointer->exact && cluster_map_round_state(map) == NO_ROUND_STATE;
    bool ordered = message->kind == SLOT_MESSAGE_ORDERED && message->entry == REPLICA_LOG_MARK;
    if (ordered && checkpointer->wanted != 0 && exact) take_exact(checkpointer, message);
    if (ordered && checkpointer->wanted != 0 && !exact) take_ordered(checkpointer, map, message);
    if (message->kind == SLOT_MESSAGE_PAUSED) take_paused(checkpointer, map, message);
    if (message->kind == SLOT_MESSAGE_SEALED) checkpointer->known = higher(checkpointer->known, message->commit);
    if (message->kind == SLOT_MESSAGE_SEALED && message->name == checkpointer->number &&
        checkpointer->known <= checkpointer->number) {
        checkpointer->sealed = true;
        checkpointer->origin = message->lsn;
    }
    if (message->kind != SLOT_MESSAGE_WHOLE || message->status != SLOT_MESSAGE_OK) return false;
    if (!checkpointer->heard && checkpointer->wanted != 0) checkpointer->wanted = message->name + 1;
    checkpointer->heard = true;
    take_sign(checkpointer, message);
    if (message->name >= checkpointer->newest) checkpointer->newest_version = message->prev;
    if (message->name > checkpointer->newest) checkpointer->newest = message->name;
    if (checkpointer->wanted == 0 || checkpointer->newest < checkpointer->wanted) return false;
    checkpointer->made = true;
    finish(checkpointer);
    return true;
}

bool checkpointer_bound(const checkpointer *checkpointer, uint64_t *number) {
    *number = higher(higher(checkpointer->newest, checkpointer->wanted), checkpointer->cut);
    return checkpointer->heard && (checkpointer->made || *number == 0);
}

bool checkpointer_seal(checkpointer *checkpointer, batcher *batcher, const char *checkpoints, uint64_t number) {
    if (checkpointer->number != number) checkpointer->sealed = false;
    checkpointer->number = number;
    if (!checkpointer->sealed)
        batcher_add(batcher, checkpoints, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = number});
    return checkpointer->sealed;
}
