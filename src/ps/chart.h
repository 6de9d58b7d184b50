/* chart.h — cluster map of the parameter server: the chain of every slot, the process of every rank, the round policy.
 *
 * Charts are decided one after the other by compare-and-swap at the coordinator under CHART_KEY; the version is the
 * chart's number. A slot has a chain, written out: an ordered list of full copies. `since` is the number of the chart
 * that made the copy full: a server whose copy has another `since` has no copy. `epoch` is the number of the chart that
 * last changed the chain, so a chart that moves one slot disturbs no other; and whoever has an older chart is told the
 * slots with newer epochs and the servers that are new since, not everything: a chart that changes a share of 1/n costs
 * that share of its bytes, for each of those who are told.
 *
 * A deployment may be mixed: the first half of its slots with values has rounds, for tables of BSP, the other half has
 * none, for tables of ASP and SSP. All ranks take part in both, with one count of steps.
 *
 * A rank has a player, the process that acts for it (cast.h). `since` is the number of the chart that gave it the rank:
 * its **stint**. Stints of a rank only grow, and each belongs to one process; whatever is said in a rank's name carries
 * the stint, and servers listen to the stint of the newest chart that they know and to no other (server.h).
 *
 * Invariants (chart_check)
 *   1  Counts are within their bounds; a table with rounds has at most CROWD_MAX ranks; a mixed deployment has an odd
 *      number of slots, at least 3.
 *   2  The epoch of a slot is the number of this chart or of an earlier one; a chain has each server once.
 *   3  Servers are sorted by id, each once, and came with this chart or an earlier one; so did players.
 *
 * Bytes that break one of these are not a chart.
 *
 * Numbers of charts and incarnations are written as varints (base/varint.h), as distances from the chart's own number
 * (d) or folded ones (f): a whole chart of 1,000 servers, 2,048 slots and 4,000 ranks is less than the coordinator
 * takes.
 *
 *   bytes    what
 *   -------  -------------------------------------------------------------------------------
 *   1        CHART_LAYOUT
 *   8 8      number, generation
 *   8        birth: the number of the generation's first chart, in which all copies are full: empty, or
 *   8        origin: as the checkpoint of this number has them (depot.h); 0: none
 *   1 8      lost: acknowledged pushes of the generation before are not in them; first_stint
 *   8        base: what follows is what changed after the chart of this number; 0: it is everything
 *   1 1 4 1  consistency of tables that name none, copies wanted, staleness; mixed
 *   4 4 4    of BSP: members of the first round, backup workers, deadline of a round (µs)
 *   4 4      ranks, slots (where there are rounds the last one is the ledger)
 *   4        runs of slots, in order; each: 4 4 the first, how many (a whole chart is one run); each slot:
 *     d v 1    epoch, 1 + home (0: none), more;
 *     1        members of its chain; each: v server, f incarnation, d since
 *   4        servers, sorted by id; each: v id, f incarnation, d since, 1 + n address
 *   4        ranks that have a player, in order; each: v ranks left out before it, v worker, f incarnation, d since */
#pragma once
#include "base/bytes.h"
#include "ps/consistency.h"
#include "ps/crowd.h"
#include "ps/part.h"

#define CHART_KEY "chart"
enum {
    CHART_LAYOUT = 7,
    CHART_COPIES_MAX = 4,
    CHART_SLOTS_MAX = 4096,
    CHART_RANKS_MAX = 8192, /* where there are rounds: CROWD_MAX */
    CHART_SERVERS_MAX = 2048
};

typedef struct chart_member {
    uint32_t server;
    uint64_t incarnation, since;
} chart_member;

typedef struct chart_slot {
    uint64_t epoch;
    uint32_t home; /* 1 + the server that should lead it, as the balancer has decided (load.h); 0: as the ring says */
    uint8_t more;  /* copies besides those of the table, for reading */
    uint8_t count;
    chart_member chain[CHART_COPIES_MAX];
} chart_slot;

typedef struct chart_server {
    uint32_t id;
    uint64_t incarnation, since; /* the number of the chart that put it there, as it is */
    char address[PART_ADDRESS_MAX];
} chart_server;

typedef struct chart_player { /* of a rank */
    uint32_t worker;
    uint64_t incarnation, since; /* since 0: nobody has played it yet */
} chart_player;

typedef struct chart_rounds { /* of BSP */
    uint32_t first_count;     /* members of the first round: the ranks below; 0: all */
    uint32_t backup;          /* a round closes without so many */
    uint32_t deadline_us;     /* and without those that are late; 0: no deadline */
} chart_rounds;

typedef struct chart { /* zero-initialized it is "none yet" */
    uint64_t number, generation, birth, origin;
    bool lost;            /* the generation before had players and ended because all copies of a slot were lost */
    uint64_t first_stint; /* the chart in which this generation's first player appears, who learns of `lost`; 0: none */
    consistency consistency; /* of tables that name none */
    bool mixed;
    uint8_t copies;
    chart_rounds rounds;
    uint32_t rank_count, slot_count, server_count;
    chart_slot *slots;     /* owned */
    chart_server *servers; /* owned */
    chart_player *players; /* by rank, owned; NULL: there are no ranks */
} chart;

void chart_fini(chart *chart);
void chart_copy(chart *to, const chart *from); /* `to` is initialized; its content is replaced */

const chart_server *chart_find(const chart *chart, uint32_t server); /* NULL: not in it */

/* Adds or replaces, in this chart: its number is set. */
void chart_put_server(chart *chart, uint32_t id, uint64_t incarnation, const char *address);

/* This process plays the rank from this chart on. */
void chart_put_player(chart *chart, uint32_t rank, uint32_t worker, uint64_t incarnation);

/* Where there are rounds the last slot is their ledger, else there is none: NO_LEDGER. The others have values. */
#define NO_LEDGER UINT32_MAX
static inline bool chart_has_rounds(const chart *chart) {
    return chart->mixed || chart->consistency.kind == CONSISTENCY_BSP;
}
static inline uint32_t chart_ledger(const chart *chart) {
    return chart_has_rounds(chart) && chart->slot_count != 0 ? chart->slot_count - 1 : NO_LEDGER;
}
static inline uint32_t chart_value_slots(const chart *chart) {
    return chart_ledger(chart) == NO_LEDGER ? chart->slot_count : chart->slot_count - 1;
}

/* So many slots a table is spread over: those from `chart_first` on, that have rounds or that have none. */
static inline uint32_t chart_table_slots(const chart *chart) {
    return chart_value_slots(chart) / (chart->mixed ? 2 : 1);
}
static inline uint32_t chart_first(const chart *chart, bool rounds) {
    return chart->mixed && !rounds ? chart_table_slots(chart) : 0;
}
static inline uint32_t chart_round_slots(const chart *chart) { /* with values: the first ones */
    return chart_has_rounds(chart) ? chart_table_slots(chart) : 0;
}
static inline bool chart_in_rounds(const chart *chart, uint32_t slot) {
    return slot < chart_round_slots(chart) || slot == chart_ledger(chart);
}
/* What holds in a slot for those who say nothing else. */
static inline consistency chart_consistency(const chart *chart, uint32_t slot) {
    if (chart_in_rounds(chart, slot)) return (consistency){CONSISTENCY_BSP, 0};
    return chart->consistency.kind == CONSISTENCY_BSP ? (consistency){CONSISTENCY_ASP, 0} : chart->consistency;
}

/* The place of this very process in the slot's chain; -1: it has none. */
int chart_place(const chart_slot *slot, uint32_t server, uint64_t incarnation);

/* What changed after the chart of number `base`; 0: everything. */
size_t chart_size(const chart *chart, uint64_t base);
void chart_encode(const chart *chart, uint64_t base, writer *writer);

/* Which chart these bytes tell. False: none, as far as that shows. */
bool chart_peek(span bytes, uint64_t *number, uint64_t *generation);

/* The chart becomes a newer one: a whole one, of its generation or of another, or what changed after it or after one
 * before it. MR_STALE: that is no newer one, or tells too little. MR_CORRUPT. It is then unchanged. */
MR_MUST mr_status chart_follow(chart *chart, span bytes);

void chart_check(const chart *chart); /* asserts the invariants above (base/invariants.h) */
