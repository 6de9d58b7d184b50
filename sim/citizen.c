/* citizen.c — see citizen.h. */
#include "sim/citizen.h"

#include <stdlib.h>

void citizen_open(citizen *citizen, sim_node *node, const env *env, const mail_handlers *handlers, void *context,
                  bool keeper, witness_book *book) {
    *citizen = (struct citizen){.env = env, .mail = mail_create(env, handlers, context)};
    if (keeper) citizen->remote = remote_create(env, citizen->mail, "keeper");
    if (keeper) citizen->witness = (witness){remote_coordinator(citizen->remote), book};
    sim_node_serve(node, &mail_events, citizen->mail);
}

void citizen_hush(citizen *citizen) {
    if (citizen->remote != NULL) remote_destroy(citizen->remote);
    citizen->remote = NULL;
}

void citizen_close(citizen *citizen) { mail_destroy(citizen->mail); }

int64_t citizen_now_us(const citizen *citizen) { return clock_now_us(citizen->env->clock); }

coordinator citizen_coordinator(citizen *citizen) {
    return citizen->witness.book == NULL ? remote_coordinator(citizen->remote) : witness_coordinator(&citizen->witness);
}

void citizen_send(citizen *citizen, const char *address, const letter *letter) {
    size_t size;
    uint8_t *bytes = letter_write(letter, &size);
    mail_send(citizen->mail, address, span_of(bytes, size));
    free(bytes);
}

bool citizen_take(citizen *citizen, span bytes, letter *letter) {
    if (letter_decode(bytes, letter) != MR_OK) return false;
    return citizen->remote == NULL || !remote_take(citizen->remote, letter);
}
