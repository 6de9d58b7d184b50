/* hold_ledger.c — see hold_ledger.h. */
#include "sim/runtime/hold_ledger.h"

#include <inttypes.h>
#include <string.h>

enum { LOOK_EVERY = 1024 }; /* bytes: a word of each is compared, and the last one */

void hold_ledger_init(hold_ledger *ledger, sim *sim, const arena *arena) {
    *ledger = (hold_ledger){.sim = sim, .arena = arena};
}

hold_object *hold_ledger_add(hold_ledger *ledger, uint64_t size) {
    if (ledger->count == HOLD_OBJECTS_MAX) return NULL;
    hold_object *object = &ledger->objects[ledger->count++];
    *object = (hold_object){.size = size};
    return object;
}

static size_t number_of(const hold_ledger *ledger, const hold_object *object) {
    return (size_t)(object - ledger->objects);
}

static uint8_t byte_at(size_t number, uint64_t at) { return (uint8_t)(number * 37 + at * 7 + (at >> 9) + 1); }

void hold_ledger_write(const hold_ledger *ledger, const hold_object *object, uint8_t *data) {
    size_t number = number_of(ledger, object);
    for (uint64_t i = 0; i < object->size; i += LOOK_EVERY) data[i] = byte_at(number, i);
    if (object->size > 0) data[object->size - 1] = byte_at(number, object->size - 1);
}

static void check_bytes(hold_ledger *ledger, const hold_object *object, const uint8_t *data) {
    size_t number = number_of(ledger, object);
    for (uint64_t i = 0; i < object->size; i += LOOK_EVERY) {
        if (data[i] == byte_at(number, i)) continue;
        sim_violation(ledger->sim, "object %zu: byte %" PRIu64 " is not the one that was sealed", number, i);
        return;
    }
    if (object->size > 0 && data[object->size - 1] != byte_at(number, object->size - 1))
        sim_violation(ledger->sim, "object %zu: its last byte is not the one that was sealed", number);
}

void hold_ledger_viewed(hold_ledger *ledger, hold_object *object, size_t place, const void *data) {
    object->at[place].views++;
    object->at[place].data = data;
    check_bytes(ledger, object, data);
}

void hold_ledger_unview(hold_ledger *ledger, hold_object *object, size_t place) {
    check_bytes(ledger, object, object->at[place].data);
    object->at[place].views--;
}

void hold_ledger_gone(hold_ledger *ledger, size_t place) {
    for (size_t i = 0; i < ledger->count; i++)
        memset(&ledger->objects[i].at[place], 0, sizeof ledger->objects[i].at[0]);
}

static const slot *slot_of(const hold_ledger *ledger, const hold_object *object) {
    return arena_at(ledger->arena, object->ref.slot);
}

void hold_ledger_file_lost(hold_ledger *ledger, uint64_t offset) {
    const slot *slot = arena_at(ledger->arena, offset);
    object_id id = {atomic_load(&slot->owner), atomic_load(&slot->number)};
    for (size_t i = 0; i < ledger->count; i++) {
        hold_object *object = &ledger->objects[i];
        if (object->ref.id.owner == id.owner && object->ref.id.number == id.number) object->may_be_lost = true;
    }
}

bool hold_ledger_is_held(const hold_object *object) {
    for (size_t place = 0; place < HOLD_PLACES_MAX; place++)
        if (object->at[place].holds > 0) return true;
    return false;
}

static bool is_viewed(const hold_object *object) {
    for (size_t place = 0; place < HOLD_PLACES_MAX; place++)
        if (object->at[place].views > 0) return true;
    return false;
}

static void check_object(hold_ledger *ledger, const hold_object *object) {
    static const char *const names[SLOT_STATES] = {"FREE",    "CREATING", "SEALED", "SPILLING",
                                                   "SPILLED", "DOOMED",   "LOST",   "GONE"};
    if (!object->shown || !hold_ledger_is_held(object)) return;
    uint64_t word = slot_read(slot_of(ledger, object));
    slot_state state = word_state(word);
    size_t number = number_of(ledger, object);
    if (word_sequence(word) != object->ref.sequence || !word_holdable(word)) {
        sim_violation(ledger->sim, "object %zu is held, but its slot is %s with another sequence", number,
                      state < SLOT_STATES ? names[state] : "nonsense");
        return;
    }
    if (is_viewed(object) && (state == SLOT_SPILLED || state == SLOT_LOST))
        sim_violation(ledger->sim, "object %zu is viewed, but it is %s", number, names[state]);
    if ((state == SLOT_LOST || state == SLOT_DOOMED) && !object->may_be_lost)
        sim_violation(ledger->sim, "object %zu is %s, though nobody deleted it and no file was lost", number,
                      names[state]);
}

void hold_ledger_check(hold_ledger *ledger) {
    for (size_t i = 0; i < ledger->count && !sim_failed(ledger->sim); i++) check_object(ledger, &ledger->objects[i]);
}

void hold_ledger_check_bytes(hold_ledger *ledger) {
    for (size_t i = 0; i < ledger->count; i++)
        for (size_t place = 0; place < HOLD_PLACES_MAX; place++)
            if (ledger->objects[i].at[place].views > 0)
                check_bytes(ledger, &ledger->objects[i], ledger->objects[i].at[place].data);
}
