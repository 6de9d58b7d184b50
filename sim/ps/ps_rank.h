/* ps_rank.h — one rank of the parameter scenario, held by one process in one term: it trains (ps_workload.h).
 *
 * The rank pulls all slots, computes, pushes, and takes its time between two steps. */
#pragma once
#include "sim/ps/ps_data_client.h"

typedef struct ps_rank ps_rank;

/* `send` gets the context; `client`: source of its data, NULL: none. All borrowed for the rank's life. */
ps_rank *ps_rank_begin(ps_process *process, const env *env, rank_agent *agent, ps_data_client *client, uint32_t rank,
                       uint64_t term, void (*send)(void *context, const char *address, span bytes), void *context);
void ps_rank_end(ps_rank *rank);

void ps_rank_take(ps_rank *rank, span bytes);
/* Another rank reports its acknowledged lsns, by slot. Only a rank that knows the reporter's cluster map, or a newer
 * one, accepts the report: then it sends its pulls to servers that have all acknowledged pushes of the reporter. */
void ps_rank_told(ps_rank *rank, const cluster_map *known, const uint64_t own[PS_SLOTS_MAX]);
int64_t ps_rank_next_us(const ps_rank *rank);
void ps_rank_tick(ps_rank *rank, int64_t now_us);
/* The rank has ended this step, and all of it is acknowledged; false: it is in that step, or about to end it. */
bool ps_rank_stands(const ps_rank *rank, uint64_t *step);
bool ps_rank_pushes(const ps_rank *rank); /* the rank has unacknowledged pushes */
uint64_t ps_rank_term(const ps_rank *rank);
bool ps_rank_done(const ps_rank *rank); /* all steps are done and acknowledged */
