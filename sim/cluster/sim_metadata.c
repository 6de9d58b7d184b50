/* sim_metadata.c — see sim_metadata.h. */
#include "sim/cluster/sim_metadata.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "cluster/messenger.h"
#include "cluster/metadata_file.h"
#include "cluster/metadata_service.h"

typedef struct metadata_process {
    const env *env;
    messenger *messenger;
    metadata_file file;
    metadata_db *db;           /* NULL: the disk has not been read yet */
    metadata_service *service; /* of `db` */
    int64_t retry_us;
} metadata_process;

static void answer_message(void *context, link_id link, const control_message *answer) {
    metadata_process *process = context;
    size_t size;
    uint8_t *bytes = control_message_write(answer, &size);
    messenger_answer(process->messenger, link, span_of(bytes, size));
    free(bytes);
}

static void take_question(void *context, link_id link, span bytes) {
    metadata_process *process = context;
    control_message question;
    if (control_message_decode(bytes, &question) != MR_OK || process->db == NULL) return;
    (void)metadata_service_take(process->service, link, &question, clock_now_us(process->env->clock));
}

static void open_metadata(metadata_process *process, int64_t now_us) {
    process->retry_us = CLOCK_NEVER_US;
    process->file.disk = process->env->disk;
    mr_status status = metadata_db_open(metadata_file_storage(&process->file), process->env->rng, now_us, &process->db);
    if (status != MR_OK) {
        process->db = NULL;
        process->retry_us = now_us + 50000;
        return;
    }
    process->service = metadata_service_create(process->db, answer_message, process);
}

static void *metadata_start(sim_node *node, const env *env, void *argument) {
    static const messenger_handlers handlers = {.on_message = take_question};
    metadata_process *process = xcalloc(1, sizeof *process);
    process->env = env;
    process->messenger = messenger_create(env, &handlers, process);
    open_metadata(process, clock_now_us(env->clock));
    sim_node_serve(node, &messenger_events, process->messenger);
    return process;
}

static void metadata_stop(void *state) {
    metadata_process *process = state;
    if (process->db != NULL) {
        metadata_service_destroy(process->service);
        metadata_db_close(process->db);
    }
    messenger_destroy(process->messenger);
    free(process);
}

static int64_t service_next_us(void *state) {
    metadata_process *process = state;
    return process->db == NULL ? process->retry_us : metadata_service_next_us(process->service);
}

static void service_tick(void *state, int64_t now_us) {
    metadata_process *process = state;
    if (process->db == NULL)
        open_metadata(process, now_us);
    else
        metadata_service_tick(process->service, now_us);
}

const sim_program sim_metadata_program = {"keeper", metadata_start, metadata_stop, service_next_us, service_tick};

const metadata_db *sim_metadata_metadata(const sim_node *node) {
    const metadata_process *process = sim_node_state(node);
    return process == NULL ? NULL : process->db;
}
