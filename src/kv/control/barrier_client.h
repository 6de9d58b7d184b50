/* barrier_client.h — barrier, worker's side: the position in the program at which a rank waits, and whether the rank
 * may pass.
 *
 *  barrier_clients_come ──► waits ── COME, again every BARRIER_CLIENT_AGAIN_US ──► the scheduler (barrier_server.h)
 *                      ▲ └── PASS: not yet, missing processes ──┐
 *                      └────────────────────────────────────────┘
 *                └── PASS: continue ──► passed, once this process has the scheduler's cluster map
 *
 * A rank that arrives again at a barrier at which it waits (after a timeout) continues to wait. A place in a step is
 * void when another generation begins (barrier_clients_restart).
 *
 *   bytes    COME, behind its stamp            PASS
 *   -------  --------------------------------  ----------------------------------------------------
 *   8 1 1    token, group, early               1 4  mr_status: OK, BUSY or an error; number of missing processes
 *   8 8 8    place, generation, first step     1 1  role of the missing, how many numbers follow
 *   1 + n    name                              4 …  their numbers
 *
 * Bounds  BARRIER_CLIENT_MAX barriers at which a process waits or that it has passed in this step. Pure. */
#pragma once
#include "base/list.h"
#include "kv/control/barrier_server.h"
#include "kv/control/process_state.h"

#define BARRIER_CLIENT_AGAIN_US INT64_C(200000)
enum { BARRIER_CLIENT_MAX = 1024, BARRIER_CLIENT_NAMED = 8 };

typedef struct barrier_client_word { /* content of COME */
    uint64_t token;
    uint8_t group;
    bool early;
    uint64_t place, generation, first;
    char name[MR_PS_NAME_MAX];
} barrier_client_word;

typedef struct barrier_client_verdict { /* content of PASS */
    mr_status status;                   /* MR_OK, MR_BUSY, MR_TOO_LARGE */
    uint8_t role;                       /* of the missing processes */
    uint32_t missing, named;
    uint32_t numbers[BARRIER_CLIENT_NAMED];
} barrier_client_verdict;

enum { BARRIER_CLIENT_WORD_MAX = 34 + MR_PS_NAME_MAX, BARRIER_CLIENT_VERDICT_MAX = 10 + 4 * BARRIER_CLIENT_NAMED };
size_t barrier_client_word_encode(const barrier_client_word *word, uint8_t *out);
MR_MUST mr_status barrier_client_word_decode(span bytes, barrier_client_word *out); /* MR_CORRUPT */
size_t barrier_client_verdict_encode(const barrier_client_verdict *verdict, uint8_t *out);
MR_MUST mr_status barrier_client_verdict_decode(span bytes, barrier_client_verdict *out); /* MR_CORRUPT */

typedef struct barrier_clients barrier_clients;

typedef struct barrier_clients_where { /* position of the program at its arrival */
    bool early, open;                  /* no step has begun yet; a step is open */
    uint64_t step;
} barrier_clients_where;

barrier_clients *barrier_clients_create(const process_sender *self, uint64_t token);
void barrier_clients_destroy(barrier_clients *clients);

/* Arrives, or continues to wait. MR_TOO_LARGE. */
MR_MUST mr_status barrier_clients_come(barrier_clients *clients, const char *name, uint8_t group,
                                       barrier_clients_where where, int64_t now_us);
/* Status of the wait at a barrier. MR_BUSY: the error lists the missing processes. MR_OK, MR_STALE, MR_TOO_LARGE: the
 * wait is over, and deleted. */
mr_status barrier_clients_passed(barrier_clients *clients, const char *name);
void barrier_clients_restart(barrier_clients *clients); /* another generation has begun */

/* false: the message is not for this module */
bool barrier_clients_take(barrier_clients *clients, const control_message *message);
int64_t barrier_clients_next_us(const barrier_clients *clients);
/* Sends messages that are due; none before the rank is ready. */
void barrier_clients_tick(barrier_clients *clients, int64_t now_us);
