/* hold_checker.c — see hold_checker.h. */
#include "sim/runtime/hold_checker.h"

#include <inttypes.h>
#include <string.h>

enum { LOOK_EVERY = 1024 }; /* bytes: one word per LOOK_EVERY is compared, and the last one */

void hold_checker_init(hold_checker *checker, sim *sim, const arena *arena) {
    *checker = (hold_checker){.sim = sim, .arena = arena};
}

hold_object *hold_checker_add(hold_checker *checker, uint64_t size) {
    if (checker->count == HOLD_OBJECTS_MAX) return NULL;
    hold_object *object = &checker->objects[checker->count++];
    *object = (hold_object){.size = size};
    return object;
}

static size_t number_of(const hold_checker *checker, const hold_object *object) {
    return (size_t)(object - checker->objects);
}

static uint8_t byte_at(size_t number, uint64_t at) { return (uint8_t)(number * 37 + at * 7 + (at >> 9) + 1); }

void hold_checker_write(const hold_checker *checker, const hold_object *object, uint8_t *data) {
    size_t number = number_of(checker, object);
    for (uint64_t i = 0; i < object->size; i += LOOK_EVERY) data[i] = byte_at(number, i);
    if (object->size > 0) data[object->size - 1] = byte_at(number, object->size - 1);
}

static void check_bytes(hold_checker *checker, const hold_object *object, const uint8_t *data) {
    size_t number = number_of(checker, object);
    for (uint64_t i = 0; i < object->size; i += LOOK_EVERY) {
        if (data[i] == byte_at(number, i)) continue;
        sim_violation(checker->sim, "object %zu: byte %" PRIu64 " is not the one that was sealed", number, i);
        return;
    }
    if (object->size > 0 && data[object->size - 1] != byte_at(number, object->size - 1))
        sim_violation(checker->sim, "object %zu: its last byte is not the one that was sealed", number);
}

void hold_checker_viewed(hold_checker *checker, hold_object *object, size_t place, const void *data) {
    object->at[place].views++;
    object->at[place].data = data;
    check_bytes(checker, object, data);
}

void hold_checker_unview(hold_checker *checker, hold_object *object, size_t place) {
    check_bytes(checker, object, object->at[place].data);
    object->at[place].views--;
}

void hold_checker_gone(hold_checker *checker, size_t place) {
    for (size_t i = 0; i < checker->count; i++)
        memset(&checker->objects[i].at[place], 0, sizeof checker->objects[i].at[0]);
}

static const object_header *slot_of(const hold_checker *checker, const hold_object *object) {
    return arena_at(checker->arena, object->ref.slot);
}

void hold_checker_file_lost(hold_checker *checker, uint64_t offset) {
    const object_header *header = arena_at(checker->arena, offset);
    object_id id = {atomic_load(&header->owner), atomic_load(&header->number)};
    for (size_t i = 0; i < checker->count; i++) {
        hold_object *object = &checker->objects[i];
        if (object->ref.id.owner == id.owner && object->ref.id.number == id.number) object->may_be_lost = true;
    }
}

bool hold_checker_is_held(const hold_object *object) {
    for (size_t place = 0; place < HOLD_PLACES_MAX; place++)
        if (object->at[place].holds > 0) return true;
    return false;
}

static bool is_viewed(const hold_object *object) {
    for (size_t place = 0; place < HOLD_PLACES_MAX; place++)
        if (object->at[place].views > 0) return true;
    return false;
}

static void check_object(hold_checker *checker, const hold_object *object) {
    static const char *const names[OBJECT_HEADER_STATES] = {"FREE",    "CREATING", "SEALED", "SPILLING",
                                                            "SPILLED", "DOOMED",   "LOST",   "GONE"};
    if (!object->shown || !hold_checker_is_held(object)) return;
    uint64_t word = object_header_read(slot_of(checker, object));
    object_header_state state = object_word_state(word);
    size_t number = number_of(checker, object);
    if (object_word_sequence(word) != object->ref.sequence || !object_word_holdable(word)) {
        sim_violation(checker->sim, "object %zu is held, but its slot is %s with another sequence", number,
                      state < OBJECT_HEADER_STATES ? names[state] : "nonsense");
        return;
    }
    if (is_viewed(object) && (state == OBJECT_HEADER_SPILLED || state == OBJECT_HEADER_LOST))
        sim_violation(checker->sim, "object %zu is viewed, but it is %s", number, names[state]);
    if ((state == OBJECT_HEADER_LOST || state == OBJECT_HEADER_DOOMED) && !object->may_be_lost)
        sim_violation(checker->sim, "object %zu is %s, though nobody deleted it and no file was lost", number,
                      names[state]);
}

void hold_checker_check(hold_checker *checker) {
    for (size_t i = 0; i < checker->count && !sim_failed(checker->sim); i++)
        check_object(checker, &checker->objects[i]);
}

void hold_checker_check_bytes(hold_checker *checker) {
    for (size_t i = 0; i < checker->count; i++)
        for (size_t place = 0; place < HOLD_PLACES_MAX; place++)
            if (checker->objects[i].at[place].views > 0)
                check_bytes(checker, &checker->objects[i], checker->objects[i].at[place].data);
}
