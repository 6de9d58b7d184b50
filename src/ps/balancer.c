/* balancer.c — see balancer.h. */
#include "ps/balancer.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct loads {
    double *of;   /* load by server index */
    double share; /* fair load of a server with the weight 1 */
} loads;

static double share_of_one(const balancer_slot *slots, size_t slot_count, const balancer_server *servers,
                           size_t server_count) {
    double load = 0, weight = 0;
    for (size_t i = 0; i < slot_count; i++) load += slots[i].load;
    for (size_t i = 0; i < server_count; i++) weight += servers[i].weight;
    return weight > 0 ? load / weight : 0;
}

/* The server's load relative to its weight. */
static double level(const loads *loads, const balancer_server *servers, size_t server) {
    return loads->of[server] / servers[server].weight;
}

/* Index of the server with the highest level, or the lowest; among equals the first. */
static size_t extreme(const loads *loads, const balancer_server *servers, size_t count, bool fullest) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        double here = level(loads, servers, i), there = level(loads, servers, best);
        if (fullest ? here > there : here < there) best = i;
    }
    return best;
}

static double worse(double a, double b) { return a > b ? a : b; }

/* The slot whose move from `from` to `to` gives the lowest larger level of the two; slot_count: no move gains
 * enough. */
static size_t best_slot(const balancer_slot *slots, size_t slot_count, const balancer_server *servers,
                        const loads *loads, size_t from, size_t to) {
    size_t best = slot_count;
    double bound = level(loads, servers, from) - BALANCER_GAIN * loads->share;
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i].server != from || !slots[i].movable || slots[i].load <= 0) continue;
        double left = (loads->of[from] - slots[i].load) / servers[from].weight;
        double there = (loads->of[to] + slots[i].load) / servers[to].weight;
        if (worse(left, there) < bound) {
            bound = worse(left, there);
            best = i;
        }
    }
    return best;
}

static void move(balancer_slot *slot, loads *loads, size_t to) {
    loads->of[slot->server] -= slot->load;
    loads->of[to] += slot->load;
    slot->server = (uint32_t)to;
    slot->movable = false;
}

size_t balancer_decide(balancer_slot *slots, size_t slot_count, const balancer_server *servers, size_t server_count,
                       balancer_move *moves, size_t most) {
    if (server_count < 2) return 0;
    loads loads = {xcalloc(server_count, sizeof(double)), share_of_one(slots, slot_count, servers, server_count)};
    for (size_t i = 0; i < slot_count; i++) {
        MR_ASSERT(slots[i].server < server_count && slots[i].load >= 0);
        loads.of[slots[i].server] += slots[i].load;
    }
    size_t count = 0;
    while (count < most) {
        size_t from = extreme(&loads, servers, server_count, true), to = extreme(&loads, servers, server_count, false);
        if (level(&loads, servers, from) <= (1 + BALANCER_TOLERANCE) * loads.share) break;
        size_t at = best_slot(slots, slot_count, servers, &loads, from, to);
        if (at == slot_count) break;
        moves[count++] = (balancer_move){slots[at].slot, (uint32_t)from, (uint32_t)to};
        move(&slots[at], &loads, to);
    }
    free(loads.of);
    return count;
}

size_t balancer_hot(const balancer_slot *slots, size_t slot_count, const balancer_server *servers, size_t server_count,
                    uint32_t *hot, size_t most) {
    double strongest = 0, share = share_of_one(slots, slot_count, servers, server_count);
    for (size_t i = 0; i < server_count; i++) strongest = worse(strongest, servers[i].weight);
    double bound = (1 + BALANCER_TOLERANCE) * share * strongest;
    size_t *order = xcalloc(slot_count + 1, sizeof *order), count = 0;
    for (size_t i = 0; i < slot_count; i++) {
        if (server_count == 0 || slots[i].load <= bound) continue;
        size_t at = count++;
        for (; at > 0 && slots[order[at - 1]].load < slots[i].load; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    if (count > most) count = most;
    for (size_t i = 0; i < count; i++) hot[i] = slots[order[i]].slot;
    free(order);
    return count;
}
