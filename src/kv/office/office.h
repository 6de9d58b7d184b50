/* office.h — control plane, server's and worker's side: process state, barriers and app messages beside the slot
 * protocol.
 *
 *   standing.h ── HERE, every STANDING_US ──► the scheduler's bureau (bureau.h)
 *   arrival.h  ── COME, PASS ──────────────►
 *   stock.h    ── STOCK, every STOCK_US ───►
 *              ◄─ AWAIT ─────────────────────  while something is awaited (awaited.h)
 *   notes.h    ── NOTE ────────────────────► any process
 *
 * Threads     that of its van's loop. */
#pragma once
#include "kv/office/arrival.h"
#include "kv/office/notes.h"
#include "kv/office/standing.h"
#include "kv/office/stock.h"
#include "kv/van.h"

typedef struct office office;

typedef struct office_host {
    /* Fills in what it knows of itself: STANDING_NUMBERS and the chart. */
    void (*describe)(void *context, standing *standing);
    /* Of a server: adds what the slots have that it leads; the chart by which it counted. NULL: it has none. */
    uint64_t (*count)(void *context, stock *stock);
    void *context;
} office_host;

/* `role` is MR_PS_SERVERS or MR_PS_WORKERS; the van and the address are borrowed for its life. */
office *office_create(van *van, uint8_t role, const char *scheduler, const office_host *host);
void office_destroy(office *office);
void office_begin(office *office, uint32_t number, uint64_t incarnation); /* it has these now */

notes *office_notes(office *office);
void office_refresh(office *office); /* what it says bears the newest chart that is known here */
MR_MUST mr_status office_report(office *office, const char *key, double value); /* as standing_report_set */
MR_MUST mr_status office_come(office *office, const char *name, uint8_t group, arrivals_where where);
mr_status office_passed(office *office, const char *name); /* as arrivals_passed */
void office_restart(office *office);                       /* another generation has begun */

/* What the deployment waits for, as the scheduler said it lately; "": nothing, or it says nothing. */
const char *office_awaited(office *office);

bool office_take(office *office, const letter *letter); /* false: not for it */
int64_t office_next_us(const office *office);
void office_tick(office *office, int64_t now_us);
