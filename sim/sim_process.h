/* sim_process.h — common state of the simulated processes of a cluster: environment, messenger, and client of the
 * metadata store. */
#pragma once
#include "cluster/messenger.h"
#include "cluster/metadata_remote.h"
#include "net/env.h"
#include "sim/history_recorder.h"

typedef struct sim_process { /* in place */
    const env *env;
    messenger *messenger;
    metadata_remote *remote; /* client of the metadata store; NULL: none */
    history_recorder recorder;
} sim_process;

/* Its messages go to the handlers, with this context. `metadata`: the process uses a metadata store. `book`: records
 * its requests (history_recorder.h); NULL: no recording. All borrowed for the life of the process. */
void sim_process_open(sim_process *process, sim_node *node, const env *env, const messenger_handlers *handlers,
                      void *context, bool metadata, history_recorder_book *book);
/* Ends its pending requests while their callbacks can still run; call it before sim_process_close. */
void sim_process_hush(sim_process *process);
void sim_process_close(sim_process *process);

int64_t sim_process_now_us(const sim_process *process);
metadata_store sim_process_metadata(sim_process *process);
void sim_process_send(sim_process *process, const char *address, const control_message *message);
/* false: the message was an answer of the metadata store, or no control message */
bool sim_process_take(sim_process *process, span bytes, control_message *message);
