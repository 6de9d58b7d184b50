/* history_recorder.h — proxy of a metadata store that records its answers and their times.
 *
 * All requests of a simulation for one key form one history (linearizability.h), in true time. A metadata store may
 * begin another generation (metadata_store.h): a history is linearizable within each. A request that ends with anything
 * but an answer of the metadata store (a time-out, the end of its process) has no answer in the history: its effect is
 * unknown. A refused swap shows the newest version, but its own effect is unknown, too: the network may have delivered
 * the swap twice, and the refusal answers the second copy. It records get and compare-and-swap only. */
#pragma once
#include "cluster/metadata_store.h"
#include "sim/linearizability.h"
#include "sim/sim.h"

enum { HISTORY_RECORDER_KEYS_MAX = 20, HISTORY_RECORDER_KEY_MAX = 32 };

typedef struct history_recorder_book { /* one per simulation; zero-initialized, it is empty and ready */
    sim *sim;
    bool loses; /* the metadata store may lose its disk: versions after that are random, possibly below earlier ones */
    struct {
        char key[HISTORY_RECORDER_KEY_MAX];
        linearizability_history history;
    } keys[HISTORY_RECORDER_KEYS_MAX];
    size_t count;
} history_recorder_book;

void history_recorder_book_fini(history_recorder_book *book);
/* at the end: reports a violation for a history that is not linearizable */
void history_recorder_check(history_recorder_book *book);

typedef struct history_recorder { /* one per process; in place */
    metadata_store store;
    history_recorder_book *book;
} history_recorder;

metadata_store history_recorder_metadata(history_recorder *recorder); /* borrowed for the metadata store's life */
