/* control_server.h — control plane, scheduler's side: process table, barriers and app messages beside the slot protocol
 * (control_wire.h).
 *
 *   HERE ──► process_table.h                             PEEK ──► BOARD, WHO ──► THOSE
 *     └─ a worker is told of a stall: AWAIT
 *   STOCK ──► table_stats.h
 *   COME ──► barrier_server.h ── a round opens: it is on disk ──► PASS, to all who wait
 *   NOTE ──► app_rpc.h
 *
 * Waiting ranks and the process table are lost with the process: the processes repeat all of it. Opened rounds of
 * barriers are a value of the metadata store.
 *
 * Threads     that of its van's loop. */
#pragma once
#include "cluster/metadata_db.h"
#include "kv/control/app_rpc.h"
#include "kv/control/process_table.h"
#include "kv/control/table_stats.h"
#include "kv/van.h"
#include "ps/controller.h"

typedef struct control_server control_server;

typedef struct control_server_options { /* all borrowed for its life */
    van *van;
    metadata_db *db;
    uint32_t rank_count, server_count;
    bool rounds; /* BSP */
    const controller *controller;
    const char *stall;         /* the stall that workers are told of (stall.h); "": none */
    const uint64_t *stall_map; /* the cluster map of its diagnosis */
} control_server_options;

control_server *control_server_create(const control_server_options *options);
void control_server_destroy(control_server *server);

app_rpc *control_server_notes(control_server *server);
const process_table *control_server_process_table(const control_server *server);
const table_stats_list *control_server_table_stats(const control_server *server);
bool control_server_take(control_server *server, link_id link, const control_message *message); /* false: not for it */
void control_server_broken(control_server *server, const char *address);
int64_t control_server_next_us(const control_server *server);
void control_server_tick(control_server *server, int64_t now_us);
