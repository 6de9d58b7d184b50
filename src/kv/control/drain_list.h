/* drain_list.h — the scheduler's list of draining servers (drain.h). A restarted server is not draining. The list is
 * not durable: a draining server repeats its message.
 *
 * Pure. */
#pragma once
#include "kv/control/id_allocator.h"

typedef struct drain_list {                  /* zero-initialized: no server drains */
    uint64_t incarnations[ID_ALLOCATOR_MAX]; /* by number; 0: the server does not drain */
    uint32_t numbers[ID_ALLOCATOR_MAX];      /* draining servers, ascending: for controller_retire */
    size_t count;
} drain_list;

/* Adds a draining server; `number` is below ID_ALLOCATOR_MAX. True: the list has changed. */
bool drain_list_add(drain_list *list, uint32_t number, uint64_t incarnation);
/* A message of this server arrived: an earlier incarnation of its number drains no longer. True: the list has
 * changed. */
bool drain_list_heard(drain_list *list, uint32_t number, uint64_t incarnation);
bool drain_list_has(const drain_list *list, uint32_t number, uint64_t incarnation);
