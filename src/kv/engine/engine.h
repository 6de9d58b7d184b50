/* engine.h — storage engine of a slot: its part of every table. Implements ps/state_machine.h.
 *
 *     payload ──► sections (payload.h) ──► table by id ──► rows (table/sparse_table.h), vectors, or blocks
 *     (table/dense_table.h)
 *                                            └── table_schema.h: optimizer, schedule, initializer, limits
 *
 * A malformed payload changes nothing. A section that fits no table here (unknown, dropped, of another kind, dtype or
 * length) changes only the count of refused sections; the other sections of its payload are applied. A schema never
 * changes after its first definition; a dropped id is recorded and never reused.
 *
 *   add    one update by the table's optimizer, with the learning rate that was pushed with it (RATE), or else that of
 *          the schedule at the push's moment. The gradient of a round (PAYLOAD_ROUND) is the sum, divided by the number
 *          of its members if the table averages, and scaled if it is longer than clip_norm, by the norm over all slots
 *          of the table (engine_norms.c, slot_norms.h). If the norm is not finite, the whole update is skipped. Tables
 *          that need such norms are created only where there are rounds
 *   set    assigns values; the state of the optimizer is unchanged
 *   erase  removes keys, with their state
 *
 * Time is the highest moment of any push, and never decreases. With `age_max` a key is evicted when no push has touched
 * it for that long, at the latest an eighth of age_max later: each moment sweeps a part of the table. With `rows_max`
 * the oldest keys are evicted when there are more, a sixteenth of them at once; without `age_max` time is the number of
 * pushed sections, so that keys of one moment have an order, too. Eviction is part of applying: a function of the
 * pushes and their moments, the same at every replica.
 *
 * The version before the last apply is kept on demand (`keeps`): old rows and vectors by key (undo_log.h), blocks in
 * their second array, defined or dropped tables by the number of the apply. The cost is proportional to the changed
 * values.
 *
 * A checkpoint may need that version when the last apply is done (ps/replica_checkpoint.c). The state of optimizers is
 * not kept, so a snapshot of it has the present state and is marked as behind: the engine that reads it shows the
 * version before, and its next apply, which repeats the last one, is not computed again.
 *
 * Memory      A server without memory for a push ends with a message, since it must not differ from its replicas
 *            (section_decoder.h). An answer without memory is PAYLOAD_TOO_LARGE.
 * State       is a function of the applied pushes; a replica made from a snapshot has the same bytes as its
 *             source.
 * Threads     none. */
#pragma once
#include "kv/payload/payload.h"
#include "kv/payload/remote_values.h"
#include "kv/payload/table_schema.h"
#include "ps/state_machine.h"

extern const state_machine_ops engine_ops; /* the context is an engine_host, or NULL */

typedef struct engine_host { /* borrowed by every engine of a server */
    /* User-defined optimizers: a table with the optimizer "own:NAME" uses the optimizer NAME. All servers of a
     * deployment have the same ones, and they compute the same bits from equal arguments, or replicas differ. */
    const optim_ops *const *optimizers;
    size_t optimizer_count;
    /* imported memory, for the replica that prepares a push (settle); NULL: none */
    const remote_values_map_view *map_view;
    bool lit;           /* the next apply may read remote values in place */
    shm_export *export; /* memory of blocks that other processes may read; NULL: not exported */
    uint64_t process;   /* number of the exporting process */
    /* Called when ranks of a round give different learning rates for a table: `applies` is the lowest rank's, `other`
     * another one. May be called again for the same round. NULL: not called. */
    void (*on_rates)(void *context, uint32_t table, float applies, float other);
    void *context; /* of on_rates */
} engine_host;

/* ---- Statistics. */

typedef struct engine_look {
    uint32_t table;
    payload_look now;
} engine_look;

/* Looks at `room` tables from this id on; returns how many there are. */
size_t engine_look_at(const void *self, uint32_t from, engine_look *out, size_t room);
