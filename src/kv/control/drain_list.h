/* drain_list.h — the scheduler's list of draining servers (drain.h). A server that is started again stays. The list is
 * not durable: a draining server repeats its message.
 *
 * Pure. */
#pragma once
#include "kv/control/id_allocator.h"

typedef struct drain_list {                  /* zeros: no server leaves */
    uint64_t incarnations[ID_ALLOCATOR_MAX]; /* by number; 0: that server stays */
    uint32_t numbers[ID_ALLOCATOR_MAX];      /* of the servers that leave, sorted: for controller_retire */
    size_t count;
} drain_list;

/* `number` is below ID_ALLOCATOR_MAX. True: the list has changed. */
bool drain_list_add(drain_list *list, uint32_t number, uint64_t incarnation);
/* A server was heard as this process: an earlier draining process of its number is gone. True: the list has changed. */
bool drain_list_heard(drain_list *list, uint32_t number, uint64_t incarnation);
bool drain_list_has(const drain_list *list, uint32_t number, uint64_t incarnation);
