/* snapshot_merge.h — change of the number of slots: makes the snapshots of N slots of those of M slots.
 *
 * The input are the decoded snapshots (ps/replica_snapshot.c, kv/engine/engine_snapshot.c) of all slots with values of
 * one kind, with rounds or without, in order. Each key and each block goes to the slot in which workers look for it
 * when there are N slots (ps/slot_placement.h, dense_table_slot), with all its bytes: values, optimizer state, touches.
 *
 *   of a slot           seqs of ranks   the latest of all slots. Without rounds the slots of a checkpoint may be cut
 *                                       inside a step, or at different steps: then the whole latest step counts as
 *                                       pushed, since no seq separates the pushes that are applied from the others, and
 *                                       none may be applied twice
 *                       version         the latest; with rounds all are equal
 *                       rank sets       of the first slot; they end with the generation
 *   of a table          version, now    the latest
 *                       counts          refused, left out, evicted: the sums, in the first slot
 *                       sweep for age   begins anew
 *                       last change     none: the version before is not shown after a restart
 *   of a key            last touch      as it was; in a table with rows_max alone, where each slot counts its own
 *                                       pushes, as long before `now` as it was
 *
 * A table that the catalog does not list was dropped, and is left out.
 *
 * Ownership   the snapshots and the catalog are borrowed. Pure. */
#pragma once
#include "kv/control/table_catalog.h"

typedef struct snapshot_merge snapshot_merge;

/* MR_CORRUPT: not snapshots of slots with tables, or of a table that is newer than the catalog. MR_INVALID: a table
 * cannot have so many slots. */
MR_MUST mr_status snapshot_merge_open(const span *snapshots, uint32_t count, bool rounds, const table_catalog *catalog,
                                      uint32_t slots, snapshot_merge **out);
void snapshot_merge_close(snapshot_merge *merge);

/* Replaces the buffer's content by the snapshot of a slot. MR_CORRUPT: two snapshots have the same key; MR_NOMEM. */
MR_MUST mr_status snapshot_merge_write(const snapshot_merge *merge, uint32_t slot, buffer *out);
