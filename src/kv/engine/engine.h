/* engine.h — storage engine of a slot: its part of every table. The values of the protocol (ps/state_machine.h).
 *
 *     payload ──► sections (payload.h) ──► table by id ──► rows (table/sparse_table.h), vectors, or blocks
 *     (table/dense_table.h)
 *                                            └── table_schema.h: optimizer, schedule, initializer, limits
 *
 * A payload that is no payload changes nothing. A section that fits no table here (unknown, dropped, of another kind,
 * dtype or length) changes nothing but the count of what was refused; the others of its payload are applied. A schema
 * never changes after its first definition; a dropped id is remembered and never reused.
 *
 *   add   one update by the table's optimizer, with the rate of the moment; of a round (PAYLOAD_ROUND), whose sum is
 *          the gradient, divided by the number of its members if the table averages, and scaled if it is longer than
 *          clip_norm: with what all slots have of the table (engine_norms.c, slot_norms.h). If that is not finite, all
 *          of it is left out. Tables that need such norms are made only where there are rounds
 *   set    assigns values; the state of the optimizer stays as it is
 *   erase  removes keys, with their state
 *
 * Time is the moment that a push names, as far as it has come: it never goes back. With `age_max` a key goes when it
 * was not pushed to for so long, at the latest an eighth of it later: the table is swept a little with each moment.
 * With `rows_max` the oldest keys go when there are more, a sixteenth of them at once; without `age_max` time is the
 * number of sections that were pushed, so that keys of one moment have an order, too. All of it is part of applying: a
 * function of the pushes and their moments, the same at every copy.
 *
 * The version before the last apply is kept where it is asked for (`keeps`): old rows and vectors by key (undo_log.h),
 * blocks in their second array, tables that were defined or dropped by a mark. It costs what was changed.
 *
 * Memory      A server that has none for what was pushed ends, and says so: it may not differ from its copies
 *            (section_decoder.h). An answer for which there is none says PAYLOAD_TOO_LARGE.
 * State       is a function of what was applied; a copy that was filled has the same bytes as the one that filled it.
 * Threads     none. */
#pragma once
#include "kv/payload/payload.h"
#include "kv/payload/remote_values.h"
#include "kv/payload/table_schema.h"
#include "ps/state_machine.h"

extern const state_machine_ops engine_ops; /* its context is a engine_host, or NULL */

typedef struct engine_host { /* borrowed by every engine of a server */
    /* Optimizers of one's own: a table of definition "own:NAME" has the one called NAME. All servers of a deployment
     * have the same, and they compute the same bits from what they are given, or copies differ. */
    const optim_ops *const *optimizers;
    size_t optimizer_count;
    const remote_values_map_view *map_view; /* whose memory is seen, by who settles a push; NULL: nobody's */
    bool lit;                               /* the next apply may read what its push speaks of */
    shm_export *export;                     /* where blocks lie, for others to look at; NULL: they do not */
    uint64_t process;                       /* whose that is */
} engine_host;

/* ---- For those who look on. */

typedef struct engine_look {
    uint32_t table;
    table_schema_kind kind;
    uint64_t version;
    payload_look now;
} engine_look;

size_t engine_look_at(const void *self, engine_look *out, size_t room); /* gives how many tables there are */
