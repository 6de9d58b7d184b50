/* depot.c — see depot.h. */
#include "ps/depot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"

enum {
    HEAD_SIZE = 33,
    SHARD_SIZE = 24,
    SUM_SIZE = 8,
    MANIFEST_MAX = HEAD_SIZE + CHART_SLOTS_MAX * SHARD_SIZE + SUM_SIZE
};

typedef struct shard {
    bool there;
    uint64_t lsn, size, sum;
} shard;

typedef struct checkpoint {
    uint64_t number, generation; /* number 0: none */
    uint8_t place;
    uint32_t slot_count, count;
    shard *shards; /* by slot, owned */
} checkpoint;

struct depot {
    depot_options options;
    char director[PART_ADDRESS_MAX];
    post *post;
    bool open;               /* the manifest was read, or there is none */
    checkpoint real, making; /* the one that is whole, the one that is not yet */
    bool unsure;             /* the manifest of `making` may be on disk, or that of `real` */
    uint64_t sealed;         /* nothing is made whole before there is a chart behind this one */
    int64_t next_tick_us;
};

/* ---- Files. */

static void checkpoint_fini(checkpoint *checkpoint) {
    free(checkpoint->shards);
    *checkpoint = (struct checkpoint){0};
}

static void name_shard(char name[DISK_NAME_MAX], uint8_t place, uint32_t slot) {
    snprintf(name, DISK_NAME_MAX, "shard-%u-%u", place, slot);
}

static mr_status write_manifest(depot *depot, const checkpoint *checkpoint, uint64_t sealed) {
    size_t size = HEAD_SIZE + (size_t)checkpoint->slot_count * SHARD_SIZE + SUM_SIZE;
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    writer_u32(&writer, DEPOT_MAGIC);
    writer_u64(&writer, checkpoint->number);
    writer_u64(&writer, checkpoint->generation);
    writer_u64(&writer, sealed);
    writer_u8(&writer, checkpoint->place);
    writer_u32(&writer, checkpoint->slot_count);
    for (uint32_t i = 0; i < checkpoint->slot_count; i++) {
        writer_u64(&writer, checkpoint->shards[i].lsn);
        writer_u64(&writer, checkpoint->shards[i].size);
        writer_u64(&writer, checkpoint->shards[i].sum);
    }
    writer_u64(&writer, XXH3_64bits(bytes, writer_size(&writer)));
    MR_ASSERT(!writer.failed && writer_size(&writer) == size);
    mr_status status = disk_replace(depot->options.disk, DEPOT_MANIFEST, span_of(bytes, size));
    free(bytes);
    return status;
}

static bool read_manifest(depot *depot, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint32_t magic = reader_u32(&reader);
    checkpoint read = {.number = reader_u64(&reader), .generation = reader_u64(&reader)};
    uint64_t sealed = reader_u64(&reader);
    read.place = reader_u8(&reader);
    read.slot_count = reader_u32(&reader);
    if (reader.failed || magic != DEPOT_MAGIC || read.slot_count > CHART_SLOTS_MAX) return false;
    if (reader_left(&reader) != (size_t)read.slot_count * SHARD_SIZE + SUM_SIZE) return false;
    uint64_t sum = XXH3_64bits(bytes.data, bytes.size - SUM_SIZE);
    read.shards = xcalloc(read.slot_count + 1, sizeof *read.shards);
    read.count = read.slot_count;
    for (uint32_t i = 0; i < read.slot_count; i++) {
        read.shards[i] = (shard){.there = true, .lsn = reader_u64(&reader), .size = reader_u64(&reader)};
        read.shards[i].sum = reader_u64(&reader);
    }
    if (reader_u64(&reader) != sum) {
        checkpoint_fini(&read);
        return false;
    }
    depot->real = read;
    depot->sealed = sealed;
    return true;
}

/* A manifest that is damaged stays where it is: somebody has to look at it. */
static void open_disk(depot *depot) {
    buffer bytes;
    buffer_init(&bytes, MANIFEST_MAX);
    mr_status status = disk_read_all(depot->options.disk, DEPOT_MANIFEST, MANIFEST_MAX, &bytes);
    if (status == MR_NOT_FOUND) depot->open = true;
    if (status == MR_OK) depot->open = read_manifest(depot, span_of(bytes.data, bytes.size));
    buffer_fini(&bytes);
}

/* ---- Cuts. */

static bool is_sealed(const depot *depot) {
    return depot->sealed != 0 && post_chart(depot->post)->number <= depot->sealed && !depot->options.mutations.no_seal;
}

static void begin(depot *depot, uint64_t number) {
    const chart *chart = post_chart(depot->post);
    checkpoint_fini(&depot->making);
    depot->making = (checkpoint){.number = number,
                                 .generation = chart->generation,
                                 .place = depot->real.place ^ !depot->options.mutations.one_place,
                                 .slot_count = chart->slot_count,
                                 .shards = xcalloc(chart->slot_count + 1, sizeof(shard))};
}

/* What a depot without syncs would do. */
static mr_status write_only(disk disk, const char *name, span bytes) {
    (void)disk.ops->remove(disk.self, name);
    return disk.ops->write(disk.self, name, 0, bytes);
}

static bool save(depot *depot, const part *part) {
    disk disk = depot->options.disk;
    char name[DISK_NAME_MAX];
    name_shard(name, depot->making.place, part->slot);
    mr_status status = depot->options.mutations.no_sync ? write_only(disk, name, part->payload)
                                                        : disk_replace(disk, name, part->payload);
    if (status != MR_OK) return false;
    uint64_t sum = XXH3_64bits(part->payload.data, part->payload.size);
    depot->making.shards[part->slot] = (shard){true, part->lsn, part->payload.size, sum};
    depot->making.count++;
    return true;
}

static void make_whole(depot *depot) {
    checkpoint *making = &depot->making;
    uint32_t enough = depot->options.mutations.manifest_first ? 1 : making->slot_count;
    if (making->number == 0 || making->count < enough || is_sealed(depot)) return;
    depot->unsure = write_manifest(depot, making, depot->sealed) != MR_OK;
    if (depot->unsure) return; /* the next tick tries again */
    checkpoint_fini(&depot->real);
    depot->real = *making;
    *making = (checkpoint){0};
    if (depot->options.on_whole != NULL) depot->options.on_whole(depot->options.context, depot);
    post_add(depot->post, depot->director, &(part){.kind = PART_WHOLE, .name = depot->real.number});
}

/* A head that hears that it is saved need not keep it: it is here, or too late. */
static void take_cut(depot *depot, const part_head *from, const part *part) {
    checkpoint *making = &depot->making;
    if (part->slot >= post_chart(depot->post)->slot_count || part->payload.size > DEPOT_SHARD_MAX) return;
    bool late = part->name <= depot->real.number || part->name < making->number;
    if (!late) {
        bool begins = part->name > making->number;
        if (is_sealed(depot) || (begins && depot->unsure)) return;
        if (begins) begin(depot, part->name);
        if (!making->shards[part->slot].there && !save(depot, part)) return;
    }
    post_add(depot->post, from->address, &(struct part){.kind = PART_SAVED, .slot = part->slot, .name = part->name});
    make_whole(depot);
}

/* ---- Beginning again. */

static void take_seal(depot *depot, const part_head *from, const part *part) {
    make_whole(depot);
    if (post_chart(depot->post)->number > part->name || depot->unsure) return;
    if (depot->sealed < part->name && write_manifest(depot, &depot->real, part->name) != MR_OK) return;
    if (depot->sealed < part->name) depot->sealed = part->name;
    post_add(depot->post, from->address,
             &(struct part){.kind = PART_SEALED, .name = part->name, .lsn = depot->real.number});
}

static void take_fetch(depot *depot, const part_head *from, const part *part) {
    const checkpoint *real = &depot->real;
    if (part->name != real->number || part->slot >= real->slot_count) return;
    const shard *shard = &real->shards[part->slot];
    char name[DISK_NAME_MAX];
    buffer bytes;
    name_shard(name, real->place, part->slot);
    buffer_init(&bytes, DEPOT_SHARD_MAX);
    mr_status status = disk_read_all(depot->options.disk, name, DEPOT_SHARD_MAX, &bytes);
    if (status == MR_OK && bytes.size == shard->size && XXH3_64bits(bytes.data, bytes.size) == shard->sum)
        post_add(depot->post, from->address,
                 &(struct part){.kind = PART_SHARD,
                                .slot = part->slot,
                                .lsn = shard->lsn,
                                .name = part->name,
                                .payload = span_of(bytes.data, bytes.size)});
    buffer_fini(&bytes);
}

static void on_part(void *context, const part_head *from, const part *part, bale *bale) {
    depot *depot = context;
    if (!depot->open) return;
    if (part->kind == PART_CUT && from->who < PART_RANK) take_cut(depot, from, part);
    if (part->kind == PART_FETCH && from->who < PART_RANK) take_fetch(depot, from, part);
    if (part->kind == PART_SEAL && from->who == PART_DIRECTOR) take_seal(depot, from, part);
}

static void on_chart(void *context, const chart *chart) {
    depot *depot = context;
    bool other = depot->making.number != 0 && depot->making.generation != chart->generation;
    if (!other || depot->options.mutations.mixes) return;
    checkpoint_fini(&depot->making);
    depot->unsure = false; /* it was settled before that generation could begin: the seal */
}

/* ---- Life. */

static void send_bytes(void *context, const char *address, span bytes) {
    depot *depot = context;
    depot->options.send(depot->options.context, address, bytes);
}

depot *depot_create(const depot_options *options, int64_t now_us) {
    depot *depot = xcalloc(1, sizeof *depot);
    depot->options = *options;
    strncpy(depot->director, options->director, sizeof depot->director - 1);
    post_host host = {.send = send_bytes, .on_chart = on_chart, .on_part = on_part, .context = depot};
    depot->post = post_create(&host, PART_DEPOT, options->address);
    depot->next_tick_us = now_us;
    return depot;
}

void depot_destroy(depot *depot) {
    checkpoint_fini(&depot->real);
    checkpoint_fini(&depot->making);
    post_destroy(depot->post);
    free(depot);
}

void depot_take(depot *depot, span bytes) { post_take(depot->post, bytes); }
int64_t depot_next_us(const depot *depot) { return depot->next_tick_us; }

void depot_tick(depot *depot, int64_t now_us) {
    depot->next_tick_us = now_us + DEPOT_TICK_US;
    if (!depot->open) open_disk(depot);
    if (depot->open) make_whole(depot);
    part whole = {.kind = PART_WHOLE, .name = depot->real.number};
    post_add(depot->post, depot->director, depot->open ? &whole : NULL);
    post_flush(depot->post);
}

uint64_t depot_newest(const depot *depot) { return depot->real.number; }
uint64_t depot_lsn(const depot *depot, uint32_t slot) {
    return slot < depot->real.slot_count ? depot->real.shards[slot].lsn : 0;
}
