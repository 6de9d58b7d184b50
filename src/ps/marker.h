/* marker.h — the director's part of checkpoints: it orders cuts, and learns from where a generation begins.
 *
 *            marker_want              the depot has one that is whole, at `wanted` or behind
 *   (nothing) ──────────► MARK wanted ─────────────────────────────────────────────────────► told, once
 *                          ▲    │ heads say which one they cut: that is what is waited for
 *                          └────┘ MARKER_PATIENCE_US: somebody has missed its cut; the next one
 *
 * A disk may be slow, and the depot with it: nobody has missed anything while shards are being saved, or while the
 * depot says nothing at all. So patience ends only when it was heard MARKER_SIGNS times and had nothing new.
 *
 *              marker_seal            SEALED n
 *   (nothing) ──────────► SEAL of n ───────────► the newest there can be before the chart n + 1
 *
 * Where there are rounds the ledger is asked first, and says which version will be cut; slots without rounds, which a
 * mixed deployment has besides, are asked when it has been: then they have all steps before it, of every rank that was
 * counted (rank.h), and whoever goes on from there repeats the rest.
 *
 * The depot remembers on its disk at which number it was sealed. One above that of the seal is from before the
 * coordinator lost its own: whoever begins tells the coordinator, which then begins above it (cluster/keeper.h).
 *
 * It keeps nothing that matters: a director that starts again learns the newest from the depot. Time decides only when
 * another one is tried.
 *
 * Pure. */
#pragma once
#include "ps/post.h"

#define MARKER_PATIENCE_US INT64_C(1500000)
enum { MARKER_SIGNS = 10 };

typedef struct marker { /* zero-initialized it is ready */
    bool heard;         /* of the depot */
    uint64_t newest;    /* that is whole, as far as it is known */
    uint64_t wanted;    /* 0: nobody wants one */
    bool begun;         /* the patience counts */
    bool early;         /* mutation: it does not wait for the ledger */
    uint32_t ledger;    /* as the chart had it when it was last asked; */
    uint64_t cut;       /* and the last version that it has cut */
    int64_t until_us;
    uint32_t signs;         /* of the depot, since then */
    uint64_t making, saved; /* the checkpoint that it is saving, and how many slots of it: as it said last */
    bool sealed;
    uint64_t number, origin; /* of the seal, and what it said */
    uint64_t known;          /* the highest number at which the depot was ever sealed, as far as it said so */
} marker;

void marker_want(marker *marker);
void marker_restart(marker *marker); /* another generation has begun, from an earlier one perhaps */
void marker_order(marker *marker, const chart *chart, post *post, int64_t now_us); /* says again what is wanted */
bool marker_take(marker *marker, const part *part); /* true: what was wanted is whole, and `newest` */

/* Asks the depot; true: it has answered for this number. */
bool marker_seal(marker *marker, post *post, const char *depot, uint64_t number);
