/* bureau.h — control plane, scheduler's side: process table, barriers and app messages beside the slot protocol
 * (desk.h).
 *
 *   HERE ──► board.h                             PEEK ──► BOARD, WHO ──► THOSE
 *     └─ a worker is told what is awaited: AWAIT
 *   STOCK ──► stock.h
 *   COME ──► barriers.h ── a round opens: it is on disk ──► PASS, to all who wait
 *   NOTE ──► notes.h
 *
 * Who waits at a barrier, and the board, go with the process: all of it is said again. Rounds that have opened are a
 * value of the keeper.
 *
 * Threads     that of its van's loop. */
#pragma once
#include "cluster/keeper.h"
#include "kv/office/board.h"
#include "kv/office/notes.h"
#include "kv/office/stock.h"
#include "kv/van.h"
#include "ps/chart.h"

typedef struct bureau bureau;

typedef struct bureau_options { /* all borrowed for its life */
    van *van;
    keeper *keeper;
    uint32_t rank_count, server_count;
    bool rounds;                                /* BSP */
    const chart *(*chart)(const void *context); /* the newest; number 0: none yet */
    /* What workers are told while something is awaited (awaited.h), by this chart; "": nothing is. */
    const char *(*awaited)(const void *context, uint64_t *chart);
    const void *context;
} bureau_options;

bureau *bureau_create(const bureau_options *options);
void bureau_destroy(bureau *bureau);

notes *bureau_notes(bureau *bureau);
const board *bureau_board(const bureau *bureau);
const stocks *bureau_stocks(const bureau *bureau);
bool bureau_take(bureau *bureau, link_id link, const letter *letter); /* false: not for it */
void bureau_broken(bureau *bureau, const char *address);
int64_t bureau_next_us(const bureau *bureau);
void bureau_tick(bureau *bureau, int64_t now_us);
