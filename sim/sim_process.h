/* sim_process.h — state of every simulated process of a cluster: environment, mail, and client of the metadata store.
 * */
#pragma once
#include "cluster/messenger.h"
#include "cluster/metadata_remote.h"
#include "net/env.h"
#include "sim/history_recorder.h"

typedef struct sim_process { /* in place */
    const env *env;
    messenger *messenger;
    metadata_remote *remote; /* of the metadata store; NULL: it asks none */
    history_recorder recorder;
} sim_process;

/* Its mail goes to the handlers, with this context. `metadata`: it has a metadata store. `book`: that is asked through
 * a witness; NULL: it is not. All borrowed for its life. */
void sim_process_open(sim_process *process, sim_node *node, const env *env, const messenger_handlers *handlers,
                      void *context, bool metadata, history_recorder_book *book);
/* ends what it has asked, while those who asked are there to hear it; then: */
void sim_process_hush(sim_process *process);
void sim_process_close(sim_process *process);

int64_t sim_process_now_us(const sim_process *process);
metadata_store sim_process_metadata(sim_process *process);
void sim_process_send(sim_process *process, const char *address, const control_message *message);
/* false: it was the metadata store's, or is no control message */
bool sim_process_take(sim_process *process, span bytes, control_message *message);
