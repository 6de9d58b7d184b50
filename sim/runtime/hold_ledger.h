/* hold_ledger.h — which objects there are, who holds and views them, and what their bytes are: the checkers of the hold
 * scenario.
 *
 * It is told of objects when their refs are given out, of holds and views when they are valid (their process has
 * confirmed them) and when they end, by the process's act or its death. It looks into the slots itself.
 *
 * Checked  an object that somebody holds is there: its slot has its sequence and a state that can be held;
 *          one that somebody views is in memory, and its bytes are those that were sealed;
 *          it is lost only if it was deleted, or its file was lost;
 *          who is given a reference by a process that keeps its own hold finds the object. */
#pragma once
#include "net/shm/arena.h"
#include "sim/sim.h"
#include "store/slot.h"

enum { HOLD_OBJECTS_MAX = 256, HOLD_PLACES_MAX = 6 };

typedef struct hold_object {
    object_ref ref;
    uint64_t size;
    bool shown;       /* somebody was given the ref */
    bool may_be_lost; /* it was deleted, or its file was lost */
    struct {
        uint32_t holds, views; /* of the process that is in this place now */
        const uint8_t *data;   /* of the view */
    } at[HOLD_PLACES_MAX];
} hold_object;

typedef struct hold_ledger {
    sim *sim;
    const arena *arena;
    hold_object objects[HOLD_OBJECTS_MAX];
    size_t count;
} hold_ledger;

void hold_ledger_init(hold_ledger *ledger, sim *sim, const arena *arena);

/* NULL: there were enough. The bytes of an object follow from its number here. */
hold_object *hold_ledger_add(hold_ledger *ledger, uint64_t size);
void hold_ledger_write(const hold_ledger *ledger, const hold_object *object, uint8_t *data);

void hold_ledger_viewed(hold_ledger *ledger, hold_object *object, size_t place, const void *data); /* bytes checked */
void hold_ledger_unview(hold_ledger *ledger, hold_object *object, size_t place);                   /* before it ends */
void hold_ledger_gone(hold_ledger *ledger, size_t place); /* the process there holds nothing any more */
void hold_ledger_file_lost(hold_ledger *ledger, uint64_t slot);

bool hold_ledger_is_held(const hold_object *object);
void hold_ledger_check(hold_ledger *ledger);       /* after every event */
void hold_ledger_check_bytes(hold_ledger *ledger); /* of everything that is viewed */
