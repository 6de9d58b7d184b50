/* citizen.h — state of every simulated process of a cluster: environment, mail, and client of the coordinator. */
#pragma once
#include "cluster/mail.h"
#include "cluster/remote.h"
#include "net/env.h"
#include "sim/witness.h"

typedef struct citizen { /* in place */
    const env *env;
    mail *mail;
    remote *remote; /* of the keeper; NULL: it asks none */
    witness witness;
} citizen;

/* Its mail goes to the handlers, with this context. `keeper`: it has a coordinator. `book`: that is asked through a
 * witness; NULL: it is not. All borrowed for its life. */
void citizen_open(citizen *citizen, sim_node *node, const env *env, const mail_handlers *handlers, void *context,
                  bool keeper, witness_book *book);
void citizen_hush(citizen *citizen); /* ends what it has asked, while those who asked are there to hear it; then: */
void citizen_close(citizen *citizen);

int64_t citizen_now_us(const citizen *citizen);
coordinator citizen_coordinator(citizen *citizen);
void citizen_send(citizen *citizen, const char *address, const letter *letter);
bool citizen_take(citizen *citizen, span bytes, letter *letter); /* false: it was the coordinator's, or is no letter */
