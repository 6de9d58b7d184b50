/* player.h — rank agent of a worker: sends heartbeats, and learns which ranks it holds.
 *
 *                    a chart gives it the rank: a stint begins
 *   not played ──────────────────────────────────────────────► played, as (rank, stint)
 *       ▲                                                             │
 *       └──── a chart gives it to another, or to it once more ────────┘
 *
 * The host makes a rank (rank.h) at on_begin, begun with the stint, and destroys it at on_end. What was said in a stint
 * that is over is heard by nobody: servers have the chart that ended it, or refuse whoever comes with a later one.
 *
 * For a checkpoint all ranks may have to stand still between two steps (truce.h). The host asks whether a rank may
 * begin a step, and is asked where its ranks stand.
 *
 * Invariants (player_check)
 *   1  A rank that it plays is played in the stint that the newest chart gives it; there are as many ranks as in that
 *      chart.
 *   2  A pause that holds is later than all that are over (rest.h).
 *
 * Pure: bytes in, bytes out, ticks. */
#pragma once
#include "ps/post.h"

#define PLAYER_BEAT_US INT64_C(100000)

typedef struct player_options {
    uint32_t worker;
    const char *address, *director; /* copied */
    void (*send)(void *context, const char *address, span bytes);
    void (*on_begin)(void *context, uint32_t rank, uint64_t stint);
    void (*on_end)(void *context, uint32_t rank);
    /* It is not heard: the director knows a process of this worker with a higher incarnation, of a later generation of
     * the coordinator. So that one had lost its disk when this process enrolled: the host enrols once more, above that
     * (cluster/enrol.h), and begins again. Not told to a process that was heard, and replaced since. May be NULL. */
    void (*on_replaced)(void *context, uint64_t incarnation);
    /* A rank that it plays has ended this step, from 1, and all of it is acknowledged; false: it is in that step. May
     * be NULL: this worker heeds no pauses. */
    bool (*stands)(void *context, uint32_t rank, uint64_t *step);
    void *context;
    atlas *atlas; /* shared; NULL: one of its own */
} player_options;

typedef struct player player;

/* It does nothing before it has its incarnation, which the coordinator gives. */
player *player_create(const player_options *options);
void player_destroy(player *player); /* without on_end */
void player_begin(player *player, uint64_t incarnation, int64_t now_us);

void player_take(player *player, span bytes);
int64_t player_next_us(const player *player);
void player_tick(player *player, int64_t now_us);

/* A rank that has ended this step begins no other now. It ends by itself: ask again at the next tick, or batch. */
bool player_rests(const player *player, uint64_t ended);
void player_say(player *player); /* something was acknowledged: if it is at rest, and all ranks stand, it says so */

const chart *player_chart(const player *player);
void player_check(const player *player); /* asserts the invariants above (base/invariants.h) */
