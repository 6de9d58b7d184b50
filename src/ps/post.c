/* post.c — see post.h. */
#include "ps/post.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"

typedef struct outbox {
    char address[PART_ADDRESS_MAX];
    bool own; /* that is its post's */
    part_batch batch;
} outbox;

struct post {
    post_host host;
    part_head head;
    uint8_t saying[PART_HEAD_MAX]; /* that head, as every batch begins */
    size_t said;                   /* bytes of it; 0: it is another one now */
    atlas *atlas;
    atlas_page *page; /* the chart that it knows */
    outbox *outboxes; /* owned; those in use come first */
    size_t used, count;
    uint32_t *places;   /* by hash of an address: its outbox + 1, or 0; owned, in use while there are many */
    size_t place_count; /* a power of two */
    bale **own;         /* batches to itself, owned */
    size_t own_count;
    bale *spare;     /* owned: where small batches are copied to, while nobody keeps of them; NULL: none yet */
    bool told_large; /* it said that something is too large to be sent */
};

post *post_create(const post_host *host, uint32_t who, const char *address) {
    MR_ASSERT(strlen(address) < PART_ADDRESS_MAX);
    post *post = xcalloc(1, sizeof *post);
    post->host = *host;
    post->head.who = who;
    strcpy(post->head.address, address);
    post->atlas = host->atlas == NULL ? atlas_create() : atlas_ref(host->atlas);
    post->page = atlas_open(post->atlas);
    return post;
}

void post_destroy(post *post) {
    for (size_t i = 0; i < post->count; i++) part_batch_fini(&post->outboxes[i].batch);
    for (size_t i = 0; i < post->own_count; i++) bale_unref(post->own[i]);
    free(post->own);
    bale_unref(post->spare);
    free(post->places);
    free(post->outboxes);
    atlas_close(post->atlas, post->page);
    atlas_unref(post->atlas);
    free(post);
}

void post_set_incarnation(post *post, uint64_t incarnation) {
    post->head.incarnation = incarnation;
    post->said = 0;
}
const chart *post_chart(const post *post) { return atlas_chart(post->page); }

void post_adopt(post *post, span bytes) {
    if (atlas_follow(post->atlas, &post->page, bytes) != MR_OK) return;
    const chart *chart = post_chart(post);
    post->head.number = chart->number;
    post->head.generation = chart->generation;
    post->said = 0;
    post->host.on_chart(post->host.context, chart);
}

/* ---- Out. */

enum { FEW = 16 }; /* so many are looked through */

static uint32_t *place_of(const post *post, const char *address) {
    MR_ASSERT(post->place_count > post->used); /* one place is empty: the search ends */
    size_t at = hash_on(HASH_BEGIN, address, strlen(address));
    for (;; at++) {
        uint32_t *place = &post->places[at & (post->place_count - 1)];
        if (*place == 0 || strcmp(post->outboxes[*place - 1].address, address) == 0) return place;
    }
}

static void give_places(post *post) {
    if (post->place_count < 4 * post->used) {
        while (post->place_count < 4 * post->used)
            post->place_count = post->place_count == 0 ? 1 : 2 * post->place_count;
        free(post->places);
        post->places = xmalloc(post->place_count * sizeof *post->places);
    }
    memset(post->places, 0, post->place_count * sizeof *post->places);
    for (size_t i = 0; i < post->used; i++) *place_of(post, post->outboxes[i].address) = (uint32_t)i + 1;
}

static outbox *find_outbox(const post *post, const char *address) {
    if (post->used > FEW) {
        uint32_t place = *place_of(post, address);
        return place == 0 ? NULL : &post->outboxes[place - 1];
    }
    for (size_t i = 0; i < post->used; i++)
        if (strcmp(post->outboxes[i].address, address) == 0) return &post->outboxes[i];
    return NULL;
}

static void begin(post *post, outbox *outbox) {
    if (post->said == 0) post->said = part_write_head(&post->head, post->saying);
    part_begin_written(&outbox->batch, span_of(post->saying, post->said));
}

static outbox *take_outbox(post *post, const char *address) {
    MR_ASSERT(strlen(address) < PART_ADDRESS_MAX && post->used <= post->count);
    if (post->used == post->count) {
        post->count = post->count == 0 ? 4 : 2 * post->count;
        post->outboxes = xrealloc(post->outboxes, post->count * sizeof *post->outboxes);
        for (size_t i = post->used; i < post->count; i++)
            post->outboxes[i] = (outbox){.batch.points = post->host.send_pieces != NULL};
    }
    outbox *outbox = &post->outboxes[post->used++];
    if (outbox->address[0] == '\0' ||
        strcmp(outbox->address, address) != 0) { /* else it is the same as the last time */
        strcpy(outbox->address, address);
        outbox->own = strcmp(address, post->head.address) == 0;
    }
    begin(post, outbox);
    if (post->used == FEW + 1 || (post->used > FEW && 2 * post->used > post->place_count))
        give_places(post);
    else if (post->used > FEW)
        *place_of(post, address) = (uint32_t)post->used;
    return outbox;
}

/* What is applied while it lies in the cache, and is no burden to a link: larger parts travel alone. */
enum { BATCH_PARTS = 512, BATCH_BYTES = 240 * 1024 };

/* What it says to itself it hears when everything else is on its way. */
static void send_outbox(post *post, outbox *outbox) {
    part_batch *batch = &outbox->batch;
    const bale_piece *pieces;
    bool small = batch->piece_count == 0 && batch->bytes.size <= POST_SMALL;
    if (outbox->own) {
        post->own = xrealloc(post->own, (post->own_count + 1) * sizeof(bale *));
        post->own[post->own_count++] = part_copy(batch);
    } else if (small || post->host.send_pieces == NULL) {
        post->host.send(post->host.send_context, outbox->address, part_end(batch));
    } else {
        size_t count = part_pieces(batch, &pieces);
        post->host.send_pieces(post->host.send_context, outbox->address, pieces, count);
    }
    part_let_go(batch);
}

static void tell_large(post *post, const part *part) {
    if (!post->told_large)
        log_error("%s of slot %u has %zu bytes; the limit of a message is %d: create the table with more slots",
                  part_kind_name(part->kind), part->slot, part_payload_size(part), PART_PAYLOAD_MAX);
    post->told_large = true;
}

void post_add(post *post, const char *address, const part *part) {
    outbox *outbox = find_outbox(post, address);
    if (outbox == NULL) outbox = take_outbox(post, address);
    if (part == NULL) return;
    if (part_payload_size(part) > PART_PAYLOAD_MAX) {
        tell_large(post, part);
        return;
    }
    if (outbox->batch.count == BATCH_PARTS || part_size(&outbox->batch) + part_payload_size(part) > BATCH_BYTES) {
        send_outbox(post, outbox);
        begin(post, outbox);
    }
    part_add(&outbox->batch, part);
}

void post_flush(post *post) {
    for (size_t i = 0; i < post->used; i++) send_outbox(post, &post->outboxes[i]);
    post->used = 0;
    while (post->own_count != 0) {
        bale *first = post->own[0];
        memmove(post->own, post->own + 1, --post->own_count * sizeof(bale *));
        post_take_bale(post, bale_bytes(first), first);
        bale_unref(first);
    }
}

/* ---- In. */

/* What changed since the chart that it has. */
static void send_chart(post *post, const part_head *to) {
    const chart *chart = post_chart(post);
    MR_ASSERT(to->number < chart->number);
    uint64_t base = to->generation == chart->generation ? to->number : 0;
    size_t size = chart_size(chart, base);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    chart_encode(chart, base, &writer);
    MR_ASSERT(!writer.failed);
    post_add(post, to->address, &(part){.kind = PART_CHART, .payload = span_of(bytes, size)});
    free(bytes);
}

enum { SPARE = 512 }; /* bytes: of a batch with a few small requests, or their answers */

/* The chart of a batch is taken before anything else in it is looked at. */
static void read_charts(post *post, reader reader, uint32_t count) {
    part part;
    for (uint32_t i = 0; i < count && part_read(&reader, &part) == MR_OK; i++)
        if (part.kind == PART_CHART) post_adopt(post, part.payload);
}

static void read_parts(post *post, const part_head *head, reader reader, uint32_t count, bale *bale) {
    part part;
    for (uint32_t i = 0; i < count && part_read(&reader, &part) == MR_OK; i++)
        if (part.kind != PART_CHART) post->host.on_part(post->host.context, head, &part, bale);
}

/* Memory of a small batch; what was kept of the last one has that to itself. */
static bale *take_spare(post *post) {
    if (post->spare == NULL || post->spare->refs != 1) {
        bale_unref(post->spare);
        post->spare = bale_new(SPARE);
    }
    return bale_ref(post->spare);
}

void post_take(post *post, span bytes) {
    bale *bale = bytes.size > SPARE ? bale_copy(bytes) : take_spare(post);
    if (bytes.size <= SPARE && bytes.size != 0) memcpy(bale_room(bale), bytes.data, bytes.size);
    post_take_bale(post, span_of(bale_room(bale), bytes.size), bale);
    bale_unref(bale);
}

void post_take_bale(post *post, span bytes, bale *bale) {
    if (bale == NULL) {
        post_take(post, bytes);
        return;
    }
    reader reader = reader_of(bytes.data, bytes.size);
    part_head head;
    uint32_t count;
    if (part_read_head(&reader, &head, &count) == MR_OK) {
        if (head.charts) read_charts(post, reader, count);
        if (post->host.on_head != NULL) post->host.on_head(post->host.context, &head);
        if (head.number < post->head.number) send_chart(post, &head);
        if (head.number > post->head.number) post_add(post, head.address, NULL);
        if (head.generation == post->head.generation) read_parts(post, &head, reader, count, bale);
    }
    post_flush(post);
}
