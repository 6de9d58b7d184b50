/* farewell.h — graceful drain of a server: its slots move to other servers before it ends.
 *
 *   here ── SIGTERM ──► leaving: LEAVE, again every FAREWELL_AGAIN_US ──► the scheduler retires it (ps/director.h)
 *                          ├── a chart has it in no chain, for FAREWELL_GRACE_US: who writes to it meanwhile is told
 *                          │   where to go ──► over
 *                          ├── LEFT: nobody stays who could take its slots ──► over
 *                          └── no answer for FAREWELL_DEAF_US, the scheduler goes, too, or FAREWELL_US have
 *                              passed ──► over
 *
 *   letter    stamp: view, id, incarnation
 *   LEAVE     0, number, incarnation
 *   LEFT      1: nobody stays, go; 0: your slots move
 *
 * Pure. */
#pragma once
#include "cluster/letter.h"
#include "ps/chart.h"

#define FAREWELL_AGAIN_US INT64_C(100000)
#define FAREWELL_GRACE_US INT64_C(300000)
#define FAREWELL_DEAF_US  INT64_C(2000000)
#define FAREWELL_US       INT64_C(60000000)

typedef struct farewell { /* zero-initialized it stays */
    bool leaving, told_to_go;
    int64_t since_us, heard_us, empty_us; /* empty_us 0: it is in some chain */
    int64_t next_us;
} farewell;

void farewell_begin(farewell *farewell, int64_t now_us);
/* What is to be said now is said: true. `chart` is the newest that is known. */
bool farewell_tick(farewell *farewell, const chart *chart, uint32_t server, uint64_t incarnation, int64_t now_us);
void farewell_take(farewell *farewell, const letter *letter, int64_t now_us); /* LEFT */
bool farewell_is_over(const farewell *farewell, int64_t now_us);
