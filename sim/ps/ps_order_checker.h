/* ps_order_checker.h — checker of the order in which a rank of the parameter scenario sends its pushes: priorities.
 *
 * The checker watches a rank from outside: its requests, and the messages that it sends. A slot is surely waiting when
 * a push to it from before the last flush has never been sent.
 *
 * Checked  while a slot waits, no slot of a lower priority sends anything to the same head; but for one that was passed
 *          over RANK_PATIENCE times, which goes first.
 *
 * Changes between two flushes (priorities, cluster maps, pushes) make the order of messages sent meanwhile
 * undefined. */
#pragma once
#include "ps/rank.h"
#include "sim/ps/ps_workload.h"
#include "sim/sim.h"

typedef struct ps_order_checker { /* zero-initialized: no requests yet */
    uint64_t flushes, map;
    struct {
        uint64_t asked, went; /* highest seq requested, and sent */
        uint64_t since;       /* value of `flushes` when its priority, map or pushes last changed */
        uint64_t passed;      /* messages of other slots since it last sent */
        uint8_t priority;
    } slots[PS_SLOTS_MAX];
} ps_order_checker;

void ps_order_checker_reset(ps_order_checker *checker); /* clears it for another generation */
void ps_order_checker_push(ps_order_checker *checker, uint32_t slot, uint64_t name);
/* The push is acknowledged, whichever process sent it: contributions of an earlier process of the rank are
 * acknowledged, too. */
void ps_order_checker_pushed(ps_order_checker *checker, uint32_t slot, uint64_t name);
void ps_order_checker_prefer(ps_order_checker *checker, uint32_t slot, uint8_t priority);
void ps_order_checker_sent(ps_order_checker *checker, sim *sim, const cluster_map *map, span batch);
void ps_order_checker_flushed(ps_order_checker *checker);
