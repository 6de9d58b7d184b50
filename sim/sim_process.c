/* sim_process.c — see sim_process.h. */
#include "sim/sim_process.h"

#include <stdlib.h>

void sim_process_open(sim_process *process, sim_node *node, const env *env, const messenger_handlers *handlers,
                      void *context, bool metadata, history_recorder_book *book) {
    *process = (struct sim_process){.env = env, .messenger = messenger_create(env, handlers, context)};
    if (metadata) process->remote = metadata_remote_create(env, process->messenger, "keeper");
    if (metadata) process->recorder = (history_recorder){metadata_remote_metadata(process->remote), book};
    sim_node_serve(node, &messenger_events, process->messenger);
}

void sim_process_hush(sim_process *process) {
    if (process->remote != NULL) metadata_remote_destroy(process->remote);
    process->remote = NULL;
}

void sim_process_close(sim_process *process) { messenger_destroy(process->messenger); }

int64_t sim_process_now_us(const sim_process *process) { return clock_now_us(process->env->clock); }

metadata_store sim_process_metadata(sim_process *process) {
    return process->recorder.book == NULL ? metadata_remote_metadata(process->remote)
                                          : history_recorder_metadata(&process->recorder);
}

void sim_process_send(sim_process *process, const char *address, const control_message *message) {
    size_t size;
    uint8_t *bytes = control_message_write(message, &size);
    messenger_send(process->messenger, address, span_of(bytes, size));
    free(bytes);
}

bool sim_process_take(sim_process *process, span bytes, control_message *message) {
    if (control_message_decode(bytes, message) != MR_OK) return false;
    return process->remote == NULL || !metadata_remote_take(process->remote, message);
}
