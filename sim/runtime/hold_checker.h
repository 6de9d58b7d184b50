/* hold_checker.h — checkers of the hold scenario: objects, their holds and views, and their bytes.
 *
 * The checker learns of an object when its reference is given out, and of holds and views when they are valid (their
 * process has confirmed them) and when they end, by an act of the process or its death. The checker reads the object
 * headers itself.
 *
 * Checked  a held object exists: its header has its sequence number and a state that can be held;
 *          a viewed object is in memory, and its bytes are those that were sealed;
 *          an object is lost only if it was deleted, or its file was lost;
 *          a process that gets a reference from a process that keeps its own hold finds the object. */
#pragma once
#include "net/shm/arena.h"
#include "sim/sim.h"
#include "store/object_header.h"

enum { HOLD_OBJECTS_MAX = 256, HOLD_PLACES_MAX = 6 };

typedef struct hold_object {
    object_ref ref;
    uint64_t size;
    bool shown;       /* the object's reference was given out */
    bool may_be_lost; /* the object was deleted, or its file was lost */
    struct {
        uint32_t holds, views; /* of the current process in this place */
        const uint8_t *data;   /* bytes of the view */
    } at[HOLD_PLACES_MAX];
} hold_object;

typedef struct hold_checker {
    sim *sim;
    const arena *arena;
    hold_object objects[HOLD_OBJECTS_MAX];
    size_t count;
} hold_checker;

void hold_checker_init(hold_checker *checker, sim *sim, const arena *arena);

/* Returns NULL if there are enough objects. The bytes of an object follow from its number. */
hold_object *hold_checker_add(hold_checker *checker, uint64_t size);
void hold_checker_write(const hold_checker *checker, const hold_object *object, uint8_t *data);

/* checks the bytes */
void hold_checker_viewed(hold_checker *checker, hold_object *object, size_t place, const void *data);
/* before the view ends */
void hold_checker_unview(hold_checker *checker, hold_object *object, size_t place);
void hold_checker_gone(hold_checker *checker, size_t place); /* the process in that place holds nothing any more */
void hold_checker_file_lost(hold_checker *checker, uint64_t slot);

bool hold_checker_is_held(const hold_object *object);
void hold_checker_check(hold_checker *checker);       /* after every event */
void hold_checker_check_bytes(hold_checker *checker); /* checks all viewed objects */
