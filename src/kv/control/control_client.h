/* control_client.h — control plane, server's and worker's side: process state, barriers and app messages beside the
 * slot protocol.
 *
 *  process_state.h ── HERE, every PROCESS_STATE_US ──► the scheduler's control server (control_server.h)
 *   barrier_client.h  ── COME, PASS ──────────────►
 *   table_stats.h  ── STOCK, every TABLE_STATS_US ───►
 *              ◄─ AWAIT ─────────────────────  during a stall (stall.h)
 *   app_rpc.h    ── NOTE ────────────────────► any process
 *
 * Threads     that of its van's loop. */
#pragma once
#include "kv/control/app_rpc.h"
#include "kv/control/barrier_client.h"
#include "kv/control/process_state.h"
#include "kv/control/table_stats.h"
#include "kv/van.h"

typedef struct control_client control_client;

typedef struct control_client_host {
    /* Fills in the process's own state: PROCESS_STATE_NUMBERS and the cluster map. */
    void (*describe)(void *context, process_state *state);
    /* Of a server: adds the sizes of the slots that it leads; returns the cluster map of the count. NULL: no tables. */
    uint64_t (*count)(void *context, table_stats *stats);
    void *context;
} control_client_host;

/* `role` is MR_PS_SERVERS or MR_PS_WORKERS; the van and the address are borrowed for its life. */
control_client *control_client_create(van *van, uint8_t role, const char *scheduler, const control_client_host *host);
void control_client_destroy(control_client *client);
void control_client_begin(control_client *client, uint32_t number, uint64_t incarnation); /* its identity */

app_rpc *control_client_notes(control_client *client);
void control_client_refresh(control_client *client); /* stamps its messages with the newest cluster map known here */
MR_MUST mr_status control_client_come(control_client *client, const char *name, uint8_t group,
                                      barrier_clients_where where);
mr_status control_client_passed(control_client *client, const char *name); /* as barrier_clients_passed */
void control_client_restart(control_client *client);                       /* another generation has begun */

/* The stall that the scheduler reported last; "": none, or no report. */
const char *control_client_stall(control_client *client);

bool control_client_take(control_client *client, const control_message *message); /* false: not for it */
int64_t control_client_next_us(const control_client *client);
void control_client_tick(control_client *client, int64_t now_us);
