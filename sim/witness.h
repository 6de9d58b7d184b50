/* witness.h — a coordinator that is asked through it, and writes down when and how it answered.
 *
 * What all processes of a simulation asked of one key is one history (lin.h), by true time. A keeper may begin another
 * generation (coordinator.h): a history is linearizable within each. A request that ends with anything but an answer of
 * the coordinator (a time-out, the end of its process) has none: nobody knows whether it was heard. A swap that is
 * refused has shown the newest version; whether it was decided is not known either: a network may have delivered it
 * twice, and this is the answer to the second. Get and compare-and-swap only. */
#pragma once
#include "cluster/coordinator.h"
#include "sim/lin.h"
#include "sim/sim.h"

enum { WITNESS_KEYS_MAX = 20, WITNESS_KEY_MAX = 32 };

typedef struct witness_book { /* of a simulation; zero-initialized with it, it is empty and ready */
    sim *sim;
    bool loses; /* the keeper may lose its disk: what comes then is drawn by chance, below what was as well */
    struct {
        char key[WITNESS_KEY_MAX];
        lin_history history;
    } keys[WITNESS_KEYS_MAX];
    size_t count;
} witness_book;

void witness_book_fini(witness_book *book);
void witness_check(witness_book *book); /* at the end: a violation for a history that is not linearizable */

typedef struct witness { /* of a process; in place */
    coordinator coordinator;
    witness_book *book;
} witness;

coordinator witness_coordinator(witness *witness); /* borrowed for the coordinator's life */
