/* drain_list.c — see drain_list.h. */
#include "kv/control/drain_list.h"

static bool set(drain_list *list, uint32_t number, uint64_t incarnation) {
    list->incarnations[number] = incarnation;
    list->count = 0;
    for (uint32_t i = 0; i < ID_ALLOCATOR_MAX; i++)
        if (list->incarnations[i] != 0) list->numbers[list->count++] = i;
    return true;
}

bool drain_list_has(const drain_list *list, uint32_t number, uint64_t incarnation) {
    return number < ID_ALLOCATOR_MAX && list->incarnations[number] == incarnation;
}

bool drain_list_add(drain_list *list, uint32_t number, uint64_t incarnation) {
    return list->incarnations[number] < incarnation && set(list, number, incarnation);
}

bool drain_list_heard(drain_list *list, uint32_t number, uint64_t incarnation) {
    uint64_t leaving = number < ID_ALLOCATOR_MAX ? list->incarnations[number] : 0;
    return leaving != 0 && leaving < incarnation && set(list, number, 0);
}
