/* history_recorder.h — proxy of a metadata store that records when and how it answered.
 *
 * All requests of a simulation for one key are one history (linearizability.h), by true time. A metadata store may
 * begin another generation (metadata_store.h): a history is linearizable within each. A request that ends with anything
 * but an answer of the metadata store (a time-out, the end of its process) has none: its effect is unknown. A refused
 * swap has shown the newest version; whether it was decided is unknown, too: a network may have delivered it twice, and
 * this is the answer to the second. Get and compare-and-swap only. */
#pragma once
#include "cluster/metadata_store.h"
#include "sim/linearizability.h"
#include "sim/sim.h"

enum { HISTORY_RECORDER_KEYS_MAX = 20, HISTORY_RECORDER_KEY_MAX = 32 };

typedef struct history_recorder_book { /* of a simulation; zero-initialized with it, it is empty and ready */
    sim *sim;
    bool loses; /* the metadata store may lose its disk: later versions are then random, also below earlier ones */
    struct {
        char key[HISTORY_RECORDER_KEY_MAX];
        linearizability_history history;
    } keys[HISTORY_RECORDER_KEYS_MAX];
    size_t count;
} history_recorder_book;

void history_recorder_book_fini(history_recorder_book *book);
/* at the end: a violation for a history that is not linearizable */
void history_recorder_check(history_recorder_book *book);

typedef struct history_recorder { /* of a process; in place */
    metadata_store store;
    history_recorder_book *book;
} history_recorder;

metadata_store history_recorder_metadata(history_recorder *recorder); /* borrowed for the metadata store's life */
