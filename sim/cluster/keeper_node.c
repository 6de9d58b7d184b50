/* keeper_node.c — see keeper_node.h. */
#include "sim/cluster/keeper_node.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "cluster/clerk.h"
#include "cluster/image.h"
#include "cluster/mail.h"

typedef struct keeper_process {
    const env *env;
    mail *mail;
    image image;
    keeper *keeper; /* NULL: the disk could not be read yet */
    clerk *clerk;   /* of the keeper */
    int64_t retry_us;
} keeper_process;

static void answer_letter(void *context, link_id link, const letter *answer) {
    keeper_process *process = context;
    size_t size;
    uint8_t *bytes = letter_write(answer, &size);
    mail_answer(process->mail, link, span_of(bytes, size));
    free(bytes);
}

static void take_question(void *context, link_id link, span bytes) {
    keeper_process *process = context;
    letter question;
    if (letter_decode(bytes, &question) != MR_OK || process->keeper == NULL) return;
    (void)clerk_take(process->clerk, link, &question, clock_now_us(process->env->clock));
}

static void open_keeper(keeper_process *process, int64_t now_us) {
    process->retry_us = CLOCK_NEVER_US;
    process->image.disk = process->env->disk;
    mr_status status = keeper_open(image_archive(&process->image), process->env->rng, now_us, &process->keeper);
    if (status != MR_OK) {
        process->keeper = NULL;
        process->retry_us = now_us + 50000;
        return;
    }
    process->clerk = clerk_create(process->keeper, answer_letter, process);
}

static void *keeper_start(sim_node *node, const env *env, void *argument) {
    static const mail_handlers handlers = {.on_letter = take_question};
    keeper_process *process = xcalloc(1, sizeof *process);
    process->env = env;
    process->mail = mail_create(env, &handlers, process);
    open_keeper(process, clock_now_us(env->clock));
    sim_node_serve(node, &mail_events, process->mail);
    return process;
}

static void keeper_stop(void *state) {
    keeper_process *process = state;
    if (process->keeper != NULL) {
        clerk_destroy(process->clerk);
        keeper_close(process->keeper);
    }
    mail_destroy(process->mail);
    free(process);
}

static int64_t desk_next_us(void *state) {
    keeper_process *process = state;
    return process->keeper == NULL ? process->retry_us : clerk_next_us(process->clerk);
}

static void desk_tick(void *state, int64_t now_us) {
    keeper_process *process = state;
    if (process->keeper == NULL)
        open_keeper(process, now_us);
    else
        clerk_tick(process->clerk, now_us);
}

const sim_program keeper_node_program = {"keeper", keeper_start, keeper_stop, desk_next_us, desk_tick};

const keeper *keeper_node_keeper(const sim_node *node) {
    const keeper_process *process = sim_node_state(node);
    return process == NULL ? NULL : process->keeper;
}
