/* shelf.h — a process's store (store/store.h) as the runtime uses it: opened when the node has lent a desk, done
 * without where there is none.
 *
 *   shelf_join ──► asked for a desk ──► open ──► shelf_close
 *                        └── refused, or the node is gone: none; values then travel through the rings
 *
 * With the context's lock held. */
#pragma once
#include "store/vault_client.h"

typedef struct shelf {
    const arena *arena; /* borrowed; NULL: a process without shared memory (in the simulator) */
    clock_source clock;
    uint64_t process;
    vault_client vault;
    store *store; /* NULL: not open (yet) */
    bool asked;   /* for a desk */
} shelf;

void shelf_init(shelf *shelf, const arena *arena, uint64_t process, clock_source clock);
void shelf_join(shelf *shelf, calls *calls, link_id node); /* asks for a desk; again if there was no room for it */
bool shelf_is_open(shelf *shelf);                          /* opens it if the desk has come */
void shelf_poll(shelf *shelf);                             /* the node says that something was taken or is wanted */
void shelf_close(shelf *shelf);                            /* before the port goes; views end */
