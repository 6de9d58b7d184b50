/* control_server.h — control plane, scheduler's side: process table, barriers and app messages beside the slot protocol
 * (control_wire.h).
 *
 *   HERE ──► process_table.h                             PEEK ──► PROCESS_TABLE, WHO ──► THOSE
 *     └─ a worker is informed of a stall: AWAIT
 *   TABLE_STATS ──► table_stats.h
 *   COME ──► barrier_server.h ── a round opens: it is durable ──► PASS, to all waiting ranks
 *   NOTE ──► app_rpc.h
 *
 * Waiting ranks and the process table are not durable: the processes repeat their messages. Opened rounds of barriers
 * are a value of the metadata store.
 *
 * Threads     the one that runs the van's event loop. */
#pragma once
#include "cluster/metadata_db.h"
#include "kv/control/app_rpc.h"
#include "kv/control/process_table.h"
#include "kv/control/table_stats.h"
#include "kv/van.h"
#include "ps/controller.h"

typedef struct control_server control_server;

typedef struct control_server_options { /* all borrowed until control_server_destroy */
    van *van;
    metadata_db *db;
    uint32_t rank_count, server_count;
    bool rounds; /* BSP */
    const controller *controller;
    const char *stall;         /* the stall that is reported to workers (stall.h); "": none */
    const uint64_t *stall_map; /* cluster map of the diagnosis */
} control_server_options;

control_server *control_server_create(const control_server_options *options);
void control_server_destroy(control_server *server);

app_rpc *control_server_notes(control_server *server);
const process_table *control_server_process_table(const control_server *server);
const table_stats_list *control_server_table_stats(const control_server *server);
/* false: the message is not for this module */
bool control_server_take(control_server *server, link_id link, const control_message *message);
void control_server_broken(control_server *server, const char *address);
int64_t control_server_next_us(const control_server *server);
void control_server_tick(control_server *server, int64_t now_us);
