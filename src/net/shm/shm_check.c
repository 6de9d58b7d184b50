/* shm_check.c — shm_transport_check: asserts the invariants of shm_internal.h, by their numbers. Bytes that other
 * processes write into shared memory are not read. */
#include "base/assert.h"
#include "net/shm/shm_internal.h"

static void check_link(const shm_link *link, uint32_t index) {
    MR_ASSERT(link->index == index && (link->id.v & (PROCESS_BLOCK_LINKS_MAX - 1)) == index); /* 1 */
    MR_ASSERT(link->linked || (!link->hot && link->out_sent == NULL));                        /* 2 */
    MR_ASSERT(link->out_sent != NULL || link->out_body.size == 0);                            /* 3 */
    MR_ASSERT(link->in_got <= link->in_size || !link->in_active);                             /* 3 */
    if (!link->linked) return;
    ring_producer_check(&link->lane.send); /* 4 */
    ring_consumer_check(&link->receive);   /* 4 */
}

void shm_transport_check(const shm_transport *transport) {
    uint32_t count = 0, hot = 0;
    MR_ASSERT(transport->links[PROCESS_BLOCK_BROKER_INDEX] == NULL); /* 1 */
    for (uint32_t i = 1; i < PROCESS_BLOCK_LINKS_MAX; i++) {
        const shm_link *link = transport->links[i];
        if (link == NULL) continue;
        check_link(link, i);
        count++;
        hot += link->hot;
    }
    MR_ASSERT(count == transport->link_count && transport->numbers.count <= count);          /* 1 */
    MR_ASSERT(hot == transport->hot_count && transport->hot_count <= SHM_TRANSPORT_HOT_MAX); /* 2 */
    for (uint32_t i = 0; i < transport->hot_count; i++)
        MR_ASSERT(transport->hot[i]->hot && transport->links[transport->hot[i]->index] == transport->hot[i]); /* 2 */
    MR_ASSERT(transport->last == NULL || transport->links[transport->last->index] == transport->last);        /* 1 */
}
