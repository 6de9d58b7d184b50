/* larder.h — data service of the scheduler: hosts the leader of the workers' consumer group (cluster/marshal.h).
 *
 * A worker that wants data joins the group; once it is decided how the data is cut (kv/corpus.h) the roster has its
 * parts, who holds them, and which piece each step of each rank has. All of that lies with the coordinator: a scheduler
 * that starts again goes on from it. Workers also ask which checkpoints may be without their steps (ps/horizon.h).
 *
 * When the tables have begun from nothing, in a chart without an origin, so does the data.
 *
 * Threads     that of its van's loop. */
#pragma once
#include "cluster/keeper.h"
#include "cluster/marshal.h"
#include "kv/office/desk.h"
#include "kv/van.h"
#include "ps/chart.h"

typedef struct larder larder;

typedef struct larder_options { /* all of it is borrowed for its life */
    van *van;
    const keeper *keeper;                                     /* has how the data is cut, once it is */
    coordinator coordinator;                                  /* of the same keeper */
    const chart *(*chart)(const void *context);               /* the newest; number 0: none yet */
    bool (*bound)(const void *context, uint64_t *checkpoint); /* director_bound */
    uint64_t (*oldest)(const void *context);                  /* checkpoint that is kept; 0: none */
    const void *context;
} larder_options;

larder *larder_create(const larder_options *options);
void larder_destroy(larder *larder); /* the coordinator owes it no answer any more */

bool larder_take(larder *larder, link_id link, const letter *letter); /* false: not for a larder */
int64_t larder_next_us(const larder *larder);
void larder_tick(larder *larder, int64_t now_us);
