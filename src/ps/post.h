/* post.h — batcher of slot messages per peer, which also spreads the newest cluster map.
 *
 * Whatever is said in one step to one peer goes as one batch. Every batch bears the number of the newest chart that its
 * sender knows. Whoever gets one from somebody who is behind sends what changed since; whoever gets one from somebody
 * who is ahead answers with a batch of its own, which asks for that. So what was decided spreads with whatever is said,
 * and nobody answers a request from a newer chart than its own before it has entered that one.
 *
 * What comes from another generation is not looked at, but for its chart: a newer one is entered, an older one never.
 *
 * Bounds      a part of more than PART_PAYLOAD_MAX bytes is not sent; the log says so. Peers in one step are as many as
 *             there are, and each is found at once.
 * Ownership   the chart lies in its atlas (atlas.h); bytes that are sent are borrowed for the call. */
#pragma once
#include "base/bale.h"
#include "ps/atlas.h"

enum { POST_SMALL = 4096 }; /* bytes of a small batch */

typedef struct post post;

typedef struct post_host {
    void (*send)(void *send_context, const char *address, span bytes);
    /* Instead of that, for a transport that gathers: large payloads are pointed at where they lie. May be NULL. Small
     * batches that lie in one piece are sent by `send` all the same. */
    void (*send_pieces)(void *send_context, const char *address, const bale_piece *pieces, size_t count);
    void *send_context;
    void (*on_chart)(void *context, const chart *chart);
    void (*on_part)(void *context, const part_head *from, const part *part, bale *bale); /* bale: where payloads lie */
    void (*on_head)(void *context, const part_head *from); /* of every batch, before its parts; may be NULL */
    void *context;
    atlas *atlas; /* shared; NULL: one of its own */
} post_host;

post *post_create(const post_host *host, uint32_t who, const char *address); /* copies all */
void post_destroy(post *post);
void post_set_incarnation(post *post, uint64_t incarnation);

const chart *post_chart(const post *post); /* number 0: none yet; borrowed until it is driven again */
void post_adopt(post *post, span chart);   /* no-op unless it is newer */

void post_add(post *post, const char *address, const part *part); /* part NULL: at least a sign of life */
void post_flush(post *post);                                      /* sends what was added */
void post_take(post *post, span bytes);                           /* a batch that came; flushes */
/* The same, where it lies: whatever keeps of it holds that. NULL: it is there for the call only, as of post_take. */
void post_take_bale(post *post, span bytes, bale *bale);
