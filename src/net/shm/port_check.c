/* port_check.c — port_check: asserts the invariants of port_core.h, by their numbers. What others write into shared
 * memory is not looked at. */
#include "base/assert.h"
#include "net/shm/port_core.h"

static void check_link(const port_link *link, uint32_t index) {
    MR_ASSERT(link->index == index && (link->id.v & (STATION_LINKS_MAX - 1)) == index); /* 1 */
    MR_ASSERT(link->linked || (!link->hot && link->out_sent == NULL));                  /* 2 */
    MR_ASSERT(link->out_sent != NULL || link->out_body.size == 0);                      /* 3 */
    MR_ASSERT(link->in_got <= link->in_size || !link->in_active);                       /* 3 */
    if (!link->linked) return;
    ring_producer_check(&link->lane.send); /* 4 */
    ring_consumer_check(&link->receive);   /* 4 */
}

void port_check(const port *port) {
    uint32_t count = 0, hot = 0;
    MR_ASSERT(port->links[STATION_HUB_INDEX] == NULL); /* 1 */
    for (uint32_t i = 1; i < STATION_LINKS_MAX; i++) {
        const port_link *link = port->links[i];
        if (link == NULL) continue;
        check_link(link, i);
        count++;
        hot += link->hot;
    }
    MR_ASSERT(count == port->link_count && port->numbers.count <= count); /* 1 */
    MR_ASSERT(hot == port->hot_count && port->hot_count <= PORT_HOT_MAX); /* 2 */
    for (uint32_t i = 0; i < port->hot_count; i++)
        MR_ASSERT(port->hot[i]->hot && port->links[port->hot[i]->index] == port->hot[i]); /* 2 */
    MR_ASSERT(port->last == NULL || port->links[port->last->index] == port->last);        /* 1 */
}
