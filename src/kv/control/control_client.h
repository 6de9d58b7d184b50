/* control_client.h — control plane, server's and worker's side: process state, barriers and app messages beside the
 * slot protocol.
 *
 *   process_state.h   ── HERE, every PROCESS_STATE_US ───────►  the scheduler's control server (control_server.h)
 *   barrier_client.h  ── COME ───────────────────────────────►
 *   table_stats.h     ── TABLE_STATS, every TABLE_STATS_US ──►
 *                     ◄─ PASS ────────────────────────────────
 *                     ◄─ AWAIT ─────────────────────────────── during a stall (stall.h)
 *   app_rpc.h         ── NOTE ───────────────────────────────► any process
 *
 * Threads     the one that runs the van's event loop. */
#pragma once
#include "kv/control/app_rpc.h"
#include "kv/control/barrier_client.h"
#include "kv/control/process_state.h"
#include "kv/control/table_stats.h"
#include "kv/van.h"

typedef struct control_client control_client;

typedef struct control_client_host {
    /* Fills in PROCESS_STATE_NUMBERS and the cluster map of the process. */
    void (*describe)(void *context, process_state *state);
    /* Server: adds the sizes of the slots whose head it is, from the id stats->from on; returns the cluster map they
     * belong to. NULL: no tables. */
    uint64_t (*count)(void *context, table_stats *stats);
    void *context;
} control_client_host;

/* `role` is MR_PS_SERVERS or MR_PS_WORKERS; van and address are borrowed until control_client_destroy. */
control_client *control_client_create(van *van, uint8_t role, const char *scheduler, const control_client_host *host);
void control_client_destroy(control_client *client);
/* number and incarnation of this process */
void control_client_begin(control_client *client, uint32_t number, uint64_t incarnation);

app_rpc *control_client_notes(control_client *client);
/* puts the newest known cluster map into the stamp of further messages */
void control_client_refresh(control_client *client);
MR_MUST mr_status control_client_come(control_client *client, const char *name, uint8_t group,
                                      barrier_clients_where where);
mr_status control_client_passed(control_client *client, const char *name); /* as barrier_clients_passed */
void control_client_restart(control_client *client);                       /* another generation has begun */

/* The stall that the scheduler reported last; "": none, or the report has expired. */
const char *control_client_stall(control_client *client);

/* false: the message is not for this module */
bool control_client_take(control_client *client, const control_message *message);
int64_t control_client_next_us(const control_client *client);
void control_client_tick(control_client *client, int64_t now_us);
