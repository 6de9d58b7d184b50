/* feed.h — where a worker of the parameter scenario has its data from: a member of the roster (cluster/attendee.h)
 * that claims pieces for the steps of its ranks, before they begin. */
#pragma once
#include "sim/citizen.h"
#include "sim/ps/party.h"

typedef struct ps_feed ps_feed;

ps_feed *ps_feed_create(ps_seat *seat, citizen *citizen); /* borrowed for its life */
void ps_feed_destroy(ps_feed *feed);
void ps_feed_begin(ps_feed *feed, uint64_t incarnation);

void ps_feed_take(ps_feed *feed, const letter *letter);
int64_t ps_feed_next_us(const ps_feed *feed);
void ps_feed_tick(ps_feed *feed, int64_t now_us);

/* The piece for this step; false: there is none yet, and one is asked for. */
bool ps_feed_piece(ps_feed *feed, uint32_t rank, uint64_t step, const claims_past *past, claims_piece *out);
/* It needs no piece, and says what is over, if the roster has a claim of such a step. */
void ps_feed_pass(ps_feed *feed, uint32_t rank, const claims_past *past);
void ps_feed_leave(ps_feed *feed, uint32_t rank); /* it plays this rank no more */
