/* kv_server.h — server process: its replicas of slots on a van (van.h).
 *
 * A server has no durable state: its slots are in other replicas or in the last checkpoint. A restarted server has
 * another incarnation, and gets its slots from other replicas.
 *
 * Threads     the one that runs the van's event loop. */
#pragma once
#include "kv/control/kv_process.h"
#include "kv/engine/engine.h"
#include "ps/slot_server.h"

typedef struct kv_server kv_server;

/* Sets `options.role`. `memory`: limit of the server's memory in bytes; 0: a part of the machine's memory
 * (memory_budget.h). Statuses as of kv_process_open. */
MR_MUST mr_status kv_server_open(const kv_process_options *options, uint64_t memory, kv_server **out);
void kv_server_close(kv_server *server);

void kv_server_own(kv_server *server,
                   /* sets the user-defined optimizers before the loop runs; borrowed until kv_server_close */
                   const engine_host *host);
/* Starts a drain: the loop stops when other servers have the slots (drain.h). A second call stops the loop at once. */
void kv_server_leave(kv_server *server);

kv_process *kv_server_kv_process(const kv_server *server);
van *kv_server_van(const kv_server *server);
/* why the scheduler does not admit this server, so that the loop was stopped (server_admission.h); NULL: it does */
const char *kv_server_rejection(const kv_server *server);
/* whether another process has the number, so that the loop was stopped */
bool kv_server_is_deposed(const kv_server *server);
/* for inspection; NULL: the process has no number yet */
const slot_server *kv_server_slots(const kv_server *server);
