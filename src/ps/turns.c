/* turns.c — see turns.h. */
#include "ps/turns.h"

#include "base/assert.h"
#include "base/list.h"

enum { AGE_BITS = 55 };

void turns_fini(turns *turns) {
    heap_fini(&turns->preferred);
    heap_fini(&turns->patient);
}

static int64_t key_of(const turn *turn, uint8_t priority) {
    MR_ASSERT(turn->since < UINT64_C(1) << AGE_BITS);
    return (int64_t)((uint64_t)(UINT8_MAX - priority) << AGE_BITS | turn->since);
}

void turns_wait(turns *turns, turn *turn, uint8_t priority) {
    if (heap_holds(&turn->preferred)) return;
    heap_add(&turns->preferred, &turn->preferred, key_of(turn, priority));
    heap_add(&turns->patient, &turn->patient, (int64_t)turns->gone);
}

void turns_prefer(turns *turns, turn *turn, uint8_t priority) {
    if (heap_holds(&turn->preferred)) heap_add(&turns->preferred, &turn->preferred, key_of(turn, priority));
}

void turns_leave(turns *turns, turn *turn) {
    MR_ASSERT(heap_holds(&turn->preferred) == heap_holds(&turn->patient));
    if (!heap_holds(&turn->preferred)) return;
    heap_remove(&turns->preferred, &turn->preferred);
    heap_remove(&turns->patient, &turn->patient);
}

turn *turns_next(const turns *turns, uint64_t patience) {
    heap_item *patient = heap_first(&turns->patient), *preferred = heap_first(&turns->preferred);
    if (preferred == NULL) return NULL;
    if (turns->gone - (uint64_t)patient->at_us >= patience) return container_of(patient, turn, patient);
    return container_of(preferred, turn, preferred);
}

void turns_go(turns *turns, turn *turn) {
    turns_leave(turns, turn);
    turns->gone++;
}

void turns_check(const turns *turns) {
    MR_ASSERT(turns->preferred.count == turns->patient.count);
    for (size_t i = 0; i < turns->patient.count; i++) {
        const turn *turn = container_of(turns->patient.items[i], struct turn, patient);
        MR_ASSERT(heap_holds(&turn->preferred) && (uint64_t)turn->patient.at_us <= turns->gone);
    }
}
