/* depot.c — see depot.h. */
#include "ps/depot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"
#include "base/invariants.h"
#include "base/mutation.h"

enum {
    HEAD_SIZE = 32,
    SHARD_SIZE = 25,
    SUM_SIZE = 8,
    PLACES = DEPOT_KEPT + 1,
    MANIFEST_MAX = HEAD_SIZE + CHART_SLOTS_MAX * SHARD_SIZE + SUM_SIZE
};
_Static_assert((int)DEPOT_MANIFEST_MAX == (int)MANIFEST_MAX, "what others are told is true");

typedef depot_shard shard;
typedef depot_manifest checkpoint;

struct depot {
    depot_options options;
    char director[PART_ADDRESS_MAX];
    post *post;
    bool open;                      /* the manifests were read, or there are none */
    checkpoint real, making;        /* the newest that is whole, the one that is not yet */
    checkpoint old[DEPOT_KEPT - 1]; /* those before, each with the manifest of its index; number 0: none */
    bool archived;                  /* `real` is among them, too: its manifest is written under that name */
    bool unsure;                    /* the manifest of `making` may be on disk, or that of `real` */
    bool foreign;                   /* a manifest on disk has another format, as `damage` says */
    bool stuck;                     /* what was damaged last has nothing before it */
    uint64_t sealed;                /* nothing is made whole before there is a chart behind this one */
    char damage[DEPOT_DAMAGE_MAX];  /* "": none */
    int64_t next_tick_us;
};

static void tell_trouble(const depot *depot, mr_status status) {
    if (status != MR_OK && depot->options.on_trouble != NULL) depot->options.on_trouble(depot->options.context, status);
}

/* ---- Files. */

void depot_manifest_fini(depot_manifest *manifest) {
    free(manifest->shards);
    *manifest = (depot_manifest){0};
}

static void checkpoint_copy(checkpoint *to, const checkpoint *from) {
    MR_ASSERT(to != from && from->number != 0);
    depot_manifest_fini(to);
    *to = *from;
    to->shards = xcalloc(from->slot_count + 1, sizeof *to->shards);
    if (from->slot_count != 0) memcpy(to->shards, from->shards, from->slot_count * sizeof *to->shards);
}

void depot_name_shard(char name[DISK_NAME_MAX], uint8_t place, uint32_t slot, const char *ending) {
    snprintf(name, DISK_NAME_MAX, "shard-%u-%u%s", place, slot, ending);
}

static void name_shard(const depot *depot, char name[DISK_NAME_MAX], uint8_t place, uint32_t slot) {
    const depot_format *format = depot->options.format;
    depot_name_shard(name, place, slot, format == NULL ? "" : format->ending);
}

void depot_name_old(char name[DISK_NAME_MAX], size_t index) {
    snprintf(name, DISK_NAME_MAX, DEPOT_MANIFEST "-%zu", index);
}

static mr_status write_manifest(depot *depot, const char *name, const checkpoint *checkpoint, uint64_t sealed) {
    size_t size = HEAD_SIZE + (size_t)checkpoint->slot_count * SHARD_SIZE + SUM_SIZE;
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    writer_u32(&writer, DEPOT_MAGIC);
    writer_u64(&writer, checkpoint->number);
    writer_u64(&writer, checkpoint->generation);
    writer_u64(&writer, sealed);
    writer_u32(&writer, checkpoint->slot_count);
    for (uint32_t i = 0; i < checkpoint->slot_count; i++) {
        writer_u8(&writer, checkpoint->shards[i].place);
        writer_u64(&writer, checkpoint->shards[i].lsn);
        writer_u64(&writer, checkpoint->shards[i].size);
        writer_u64(&writer, checkpoint->shards[i].sum);
    }
    writer_u64(&writer, XXH3_64bits(bytes, writer_size(&writer)));
    MR_ASSERT(!writer.failed && writer_size(&writer) == size);
    mr_status status = disk_replace(depot->options.disk, name, span_of(bytes, size));
    free(bytes);
    tell_trouble(depot, status);
    return status;
}

static bool read_shards(reader *reader, checkpoint *checkpoint) {
    checkpoint->shards = xcalloc(checkpoint->slot_count + 1, sizeof *checkpoint->shards);
    for (; checkpoint->count < checkpoint->slot_count; checkpoint->count++) {
        shard *shard = &checkpoint->shards[checkpoint->count];
        *shard = (depot_shard){.there = true, .place = reader_u8(reader)};
        shard->lsn = reader_u64(reader);
        shard->size = reader_u64(reader);
        shard->sum = reader_u64(reader);
        if (shard->place >= PLACES) return false;
    }
    return true;
}

/* False: *out and *sealed are as they were. */
static bool decode_manifest(span bytes, checkpoint *out, uint64_t *sealed) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint32_t magic = reader_u32(&reader);
    checkpoint read = {.number = reader_u64(&reader)};
    read.generation = reader_u64(&reader);
    uint64_t seal = reader_u64(&reader);
    read.slot_count = reader_u32(&reader);
    if (reader.failed || magic != DEPOT_MAGIC || read.slot_count > CHART_SLOTS_MAX) return false;
    if (reader_left(&reader) != (size_t)read.slot_count * SHARD_SIZE + SUM_SIZE) return false;
    uint64_t sum = XXH3_64bits(bytes.data, bytes.size - SUM_SIZE);
    if (!read_shards(&reader, &read) || reader_u64(&reader) != sum) {
        depot_manifest_fini(&read);
        return false;
    }
    *out = read;
    *sealed = seal;
    return true;
}

mr_status depot_manifest_decode(span bytes, depot_manifest *out) {
    uint64_t sealed;
    if (decode_manifest(bytes, out, &sealed)) return MR_OK;
    return error_set(MR_CORRUPT, "malformed checkpoint manifest of %zu bytes", bytes.size);
}

/* Of another format only its first and its last bytes are known. */
mr_status depot_manifest_check(const char *name, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    const uint32_t known = format_of(DEPOT_MAGIC, DEPOT_MAGIC, sizeof(uint32_t));
    uint32_t found = format_of(reader_u32(&reader), DEPOT_MAGIC, sizeof(uint32_t));
    if (found == 0 || found == known || !format_is_sealed(bytes)) return MR_OK;
    return format_reject(name, found, known, FORMAT_USE_WRITER ", or begin in another folder");
}

mr_status depot_check_folder(disk disk) {
    mr_status status = MR_OK;
    buffer bytes;
    buffer_init(&bytes, MANIFEST_MAX);
    for (size_t i = 0; i < DEPOT_KEPT && status == MR_OK; i++) {
        char name[DISK_NAME_MAX] = DEPOT_MANIFEST;
        if (i > 0) depot_name_old(name, i - 1);
        if (disk_read_all(disk, name, MANIFEST_MAX, &bytes) != MR_OK) continue;
        status = depot_manifest_check(name, span_of(bytes.data, bytes.size));
    }
    buffer_fini(&bytes);
    return status;
}

static void tell_damage(depot *depot, const char *file, bool found) {
    if (found)
        snprintf(depot->damage, sizeof depot->damage,
                 "checkpoint file %s is damaged; checkpoint %" PRIu64 " is used instead", file, depot->real.number);
    else
        snprintf(depot->damage, sizeof depot->damage, "checkpoint file %s is damaged, and no other is left", file);
}

/* False: the disk cannot be read now. *damaged: the file is there, and no manifest. */
static bool read_manifest(depot *depot, const char *name, checkpoint *out, uint64_t *sealed, bool *damaged) {
    buffer bytes;
    buffer_init(&bytes, MANIFEST_MAX);
    mr_status status = disk_read_all(depot->options.disk, name, MANIFEST_MAX, &bytes);
    *damaged =
        status == MR_TOO_LARGE || (status == MR_OK && !decode_manifest(span_of(bytes.data, bytes.size), out, sealed));
    if (status == MR_OK && depot_manifest_check(name, span_of(bytes.data, bytes.size)) != MR_OK) {
        depot->foreign = true;
        snprintf(depot->damage, sizeof depot->damage, "%s", mr_last_error());
    }
    buffer_fini(&bytes);
    bool known = status == MR_OK || status == MR_NOT_FOUND || *damaged;
    tell_trouble(depot, known ? MR_OK : status);
    return known;
}

static void forget_all(depot *depot) {
    depot_manifest_fini(&depot->real);
    for (size_t i = 0; i < DEPOT_KEPT - 1; i++) depot_manifest_fini(&depot->old[i]);
}

/* The newest of those before takes the place of the one that is damaged. False: there is none. */
static bool fall_back(depot *depot, const char *file) {
    size_t best = 0;
    uint64_t below = depot->real.number == 0 ? UINT64_MAX : depot->real.number;
    for (size_t i = 0; i < DEPOT_KEPT - 1; i++) {
        uint64_t here = depot->old[i].number;
        if (here < below && (here > depot->old[best].number || depot->old[best].number >= below)) best = i;
    }
    bool found = depot->old[best].number != 0 && depot->old[best].number < below;
    MR_ASSERT(best < DEPOT_KEPT - 1);
    if (found) {
        checkpoint_copy(&depot->real, &depot->old[best]);
        depot->archived = true;
    }
    depot->stuck = !found;
    tell_damage(depot, file, found);
    return found;
}

/* What is damaged stays where it is: somebody has to look at it. */
static void open_disk(depot *depot) {
    bool damaged = false, before = false;
    uint64_t sealed = 0, last = 0;
    forget_all(depot);
    depot->foreign = false;
    if (!read_manifest(depot, DEPOT_MANIFEST, &depot->real, &depot->sealed, &damaged)) return;
    for (size_t i = 0; i < DEPOT_KEPT - 1; i++) {
        char name[DISK_NAME_MAX];
        bool old_damaged;
        depot_name_old(name, i);
        if (!read_manifest(depot, name, &depot->old[i], &sealed, &old_damaged)) return;
        if (sealed > last) last = sealed;
        before = before || depot->old[i].number != 0;
    }
    if (depot->foreign) {
        forget_all(depot);
        depot->stuck = true;
        return;
    }
    bool lost = damaged || (before && depot->real.number == 0);
    if (lost && last > depot->sealed) depot->sealed = last;
    depot->open = !lost || fall_back(depot, DEPOT_MANIFEST);
}

/* ---- Cuts. */

static bool is_sealed(const depot *depot) {
    return depot->sealed != 0 && post_chart(depot->post)->number <= depot->sealed && !MUTATED("no-seal");
}

static void begin(depot *depot, uint64_t number, uint64_t clock) {
    const chart *chart = post_chart(depot->post);
    MR_ASSERT(depot->open && !depot->unsure && number > depot->making.number && number > depot->real.number);
    depot_manifest_fini(&depot->making);
    depot->making = (checkpoint){.number = number,
                                 .clock = clock,
                                 .generation = chart->generation,
                                 .slot_count = chart->slot_count,
                                 .shards = xcalloc(chart->slot_count + 1, sizeof(shard))};
}

/* What a depot without syncs would do. */
static mr_status write_only(disk disk, const char *name, span bytes) {
    (void)disk.ops->remove(disk.self, name);
    return disk.ops->write(disk.self, name, 0, bytes);
}

/* A place that none of the kept checkpoints uses for this slot. */
static uint8_t free_place(const depot *depot, uint32_t slot) {
    uint32_t used = 0;
    if (slot < depot->real.slot_count) used |= 1u << depot->real.shards[slot].place;
    for (size_t i = 0; i < DEPOT_KEPT - 1; i++)
        if (slot < depot->old[i].slot_count) used |= 1u << depot->old[i].shards[slot].place;
    uint8_t place = 0;
    while ((used >> place & 1) != 0 && !MUTATED("one-place")) place++;
    MR_ASSERT(place < PLACES);
    return place;
}

/* Reads a shard. MR_CORRUPT: it is not as the manifest has it. */
static mr_status read_shard(const depot *depot, const shard *shard, uint32_t slot, buffer *out) {
    char name[DISK_NAME_MAX];
    name_shard(depot, name, shard->place, slot);
    mr_status status = disk_read_all(depot->options.disk, name, DEPOT_FILE_MAX, out);
    bool good = status == MR_OK && out->size == shard->size &&
                (XXH3_64bits(out->data, out->size) == shard->sum || MUTATED("no-sum"));
    if (status == MR_OK || status == MR_NOT_FOUND || status == MR_TOO_LARGE) status = good ? MR_OK : MR_CORRUPT;
    return status;
}

/* The newest checkpoint has the very same bytes: they are read, so that what is damaged is not used once more. */
static bool is_unchanged(const depot *depot, uint32_t slot, span file, uint64_t sum) {
    const checkpoint *real = &depot->real;
    if (slot >= real->slot_count || real->shards[slot].sum != sum) return false;
    buffer bytes;
    buffer_init(&bytes, DEPOT_FILE_MAX);
    bool same = read_shard(depot, &real->shards[slot], slot, &bytes) == MR_OK && bytes.size == file.size &&
                memcmp(bytes.data, file.data, bytes.size) == 0;
    buffer_fini(&bytes);
    return same;
}

static mr_status save_file(depot *depot, const part *part, span file) {
    disk disk = depot->options.disk;
    char name[DISK_NAME_MAX];
    uint64_t sum = XXH3_64bits(file.data, file.size);
    MR_ASSERT(part->slot < depot->making.slot_count && part->name == depot->making.number);
    bool same = is_unchanged(depot, part->slot, file, sum);
    uint8_t place = same ? depot->real.shards[part->slot].place : free_place(depot, part->slot);
    name_shard(depot, name, place, part->slot);
    mr_status status = same                       ? MR_OK
                       : MUTATED("shard-no-sync") ? write_only(disk, name, file)
                                                  : disk_replace(disk, name, file);
    if (status == MR_OK) depot->making.shards[part->slot] = (shard){true, place, part->lsn, file.size, sum};
    return status;
}

static bool save(depot *depot, const part *part) {
    const depot_format *format = depot->options.format;
    buffer file;
    buffer_init(&file, DEPOT_FILE_MAX);
    mr_status status = MR_OK;
    if (format != NULL) status = format->encode(depot->options.context, part->slot, part->payload, &file);
    if (status == MR_OK)
        status = save_file(depot, part, format == NULL ? part->payload : span_of(file.data, file.size));
    buffer_fini(&file);
    tell_trouble(depot, status);
    if (status == MR_OK) depot->making.count++;
    MR_ASSERT(depot->making.count <= depot->making.slot_count);
    return status == MR_OK;
}

/* The one that was the newest is kept, in the place of the oldest. */
static bool archive(depot *depot) {
    MR_ASSERT(depot->open);
    char name[DISK_NAME_MAX];
    size_t oldest = 0;
    if (depot->real.number == 0 || depot->archived) return true;
    for (size_t i = 0; i < DEPOT_KEPT - 1; i++)
        if (depot->old[i].number < depot->old[oldest].number) oldest = i;
    depot_name_old(name, oldest);
    if (write_manifest(depot, name, &depot->real, depot->sealed) != MR_OK) return false;
    checkpoint_copy(&depot->old[oldest], &depot->real);
    depot->archived = true;
    return true;
}

static void make_whole(depot *depot) {
    checkpoint *making = &depot->making;
    uint32_t enough = MUTATED("manifest-first") ? 1 : making->slot_count;
    bool refused = depot->options.exact && making->uneven && !MUTATED("any-clock");
    if (making->number == 0 || making->count < enough || refused || is_sealed(depot) || !archive(depot)) return;
    depot->unsure = write_manifest(depot, DEPOT_MANIFEST, making, depot->sealed) != MR_OK;
    if (depot->unsure) return; /* the next tick tries again */
    depot_manifest_fini(&depot->real);
    depot->real = *making;
    *making = (checkpoint){0};
    depot->archived = depot->stuck = false;
    if (depot->options.on_whole != NULL) depot->options.on_whole(depot->options.context, depot);
    post_add(depot->post, depot->director, &(part){.kind = PART_WHOLE, .name = depot->real.number});
}

/* A head that hears that it is saved need not keep it: it is here, or too late. One that asks is told to send it again
 * only if it has not come: it may be large. */
static void take_cut(depot *depot, const part_head *from, const part *part) {
    checkpoint *making = &depot->making;
    if (part->slot >= post_chart(depot->post)->slot_count || part->payload.size > DEPOT_SHARD_MAX) return;
    bool late = part->name <= depot->real.number || part->name < making->number;
    bool there = late || (part->name == making->number && making->shards[part->slot].there);
    if (!late) {
        bool begins = part->name > making->number;
        if (is_sealed(depot) || (begins && depot->unsure)) return;
        if (begins && part->payload.size != 0) begin(depot, part->name, part->commit);
        if (part->payload.size != 0 && (part->commit == 0 || part->commit != making->clock)) making->uneven = true;
        if (!there && part->payload.size != 0 && !save(depot, part)) return;
    }
    struct part answer = {.kind = PART_SAVED, .slot = part->slot, .name = part->name};
    if (!there && part->payload.size == 0) answer.status = PART_RESEND;
    post_add(depot->post, from->address, &answer);
    make_whole(depot);
}

/* ---- Beginning again. */

static void take_seal(depot *depot, const part_head *from, const part *part) {
    make_whole(depot);
    if (post_chart(depot->post)->number > part->name || depot->unsure) return;
    if (depot->sealed < part->name && write_manifest(depot, DEPOT_MANIFEST, &depot->real, part->name) != MR_OK) return;
    if (depot->sealed < part->name) depot->sealed = part->name;
    uint64_t sealed = MUTATED("seal-forgets") ? 0 : depot->sealed;
    post_add(depot->post, from->address,
             &(struct part){.kind = PART_SEALED, .name = part->name, .lsn = depot->real.number, .commit = sealed});
}

/* A shard that is damaged takes its checkpoint with it: whoever begins anew begins from the one before. */
static void give_up(depot *depot, const shard *shard, uint32_t slot) {
    char name[DISK_NAME_MAX];
    name_shard(depot, name, shard->place, slot);
    if (!depot->unsure) (void)fall_back(depot, name);
}

/* As it was cut. */
static mr_status load(const depot *depot, const shard *shard, uint32_t slot, buffer *out) {
    const depot_format *format = depot->options.format;
    if (format == NULL) return read_shard(depot, shard, slot, out);
    buffer file;
    buffer_init(&file, DEPOT_FILE_MAX);
    mr_status status = read_shard(depot, shard, slot, &file);
    if (status == MR_OK) status = format->decode(depot->options.context, span_of(file.data, file.size), out);
    buffer_fini(&file);
    return status;
}

static void take_fetch(depot *depot, const part_head *from, const part *part) {
    const checkpoint *real = &depot->real;
    if (part->name != real->number || part->slot >= real->slot_count) return;
    const shard *shard = &real->shards[part->slot];
    buffer bytes;
    buffer_init(&bytes, DEPOT_SHARD_MAX);
    mr_status status = load(depot, shard, part->slot, &bytes);
    if (status == MR_OK)
        post_add(depot->post, from->address,
                 &(struct part){.kind = PART_SHARD,
                                .slot = part->slot,
                                .lsn = shard->lsn,
                                .name = part->name,
                                .payload = span_of(bytes.data, bytes.size)});
    else if (status == MR_CORRUPT)
        give_up(depot, shard, part->slot);
    else
        tell_trouble(depot, status);
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
    if (!other || MUTATED("mixes-generations")) return;
    depot_manifest_fini(&depot->making);
    depot->unsure = false; /* it was settled before that generation could begin: the seal */
}

/* ---- Life. */

depot *depot_create(const depot_options *options, int64_t now_us) {
    MR_ASSERT(options->disk.ops != NULL && options->send != NULL && strlen(options->director) < PART_ADDRESS_MAX);
    depot *depot = xcalloc(1, sizeof *depot);
    depot->options = *options;
    strncpy(depot->director, options->director, sizeof depot->director - 1);
    post_host host = {.send = options->send,
                      .send_context = options->context,
                      .on_chart = on_chart,
                      .on_part = on_part,
                      .context = depot};
    depot->post = post_create(&host, PART_DEPOT, options->address);
    depot->next_tick_us = now_us;
    return depot;
}

void depot_destroy(depot *depot) {
    forget_all(depot);
    depot_manifest_fini(&depot->making);
    post_destroy(depot->post);
    free(depot);
}

void depot_take_bale(depot *depot, span bytes, bale *bale) {
    post_take_bale(depot->post, bytes, bale);
    CHECK_INVARIANTS(depot->making.slot_count, depot_check_state(depot));
}

int64_t depot_next_us(const depot *depot) { return depot->next_tick_us; }

/* Without a checkpoint that could be read it says what is damaged, and nothing else. */
void depot_tick(depot *depot, int64_t now_us) {
    depot->next_tick_us = now_us + DEPOT_TICK_US;
    if (!depot->open) open_disk(depot);
    if (depot->open) make_whole(depot);
    part whole = {.kind = PART_WHOLE,
                  .status = depot->open ? PART_OK : PART_GONE,
                  .name = depot->real.number,
                  .lsn = depot->making.number,
                  .commit = depot->making.count,
                  .payload = span_of(depot->damage, strlen(depot->damage))};
    post_add(depot->post, depot->director, depot->open || whole.payload.size != 0 ? &whole : NULL);
    post_flush(depot->post);
    CHECK_INVARIANTS(depot->making.slot_count, depot_check_state(depot));
}

mr_status depot_check(const depot *depot) {
    return depot->damage[0] == '\0' ? MR_OK : error_set(MR_CORRUPT, "%s", depot->damage);
}

bool depot_is_stuck(const depot *depot) { return depot->stuck; }

uint64_t depot_newest(const depot *depot) { return depot->real.number; }

uint64_t depot_oldest(const depot *depot) {
    uint64_t oldest = depot->real.number;
    for (size_t i = 0; i < sizeof depot->old / sizeof *depot->old; i++)
        if (depot->old[i].number != 0 && depot->old[i].number < oldest) oldest = depot->old[i].number;
    return oldest;
}
uint64_t depot_lsn(const depot *depot, uint32_t slot) {
    return slot < depot->real.slot_count ? depot->real.shards[slot].lsn : 0;
}

static void check_checkpoint(const checkpoint *checkpoint) {
    uint32_t count = 0;
    MR_ASSERT(checkpoint->slot_count <= CHART_SLOTS_MAX && (checkpoint->slot_count == 0 || checkpoint->shards != NULL));
    for (uint32_t i = 0; i < checkpoint->slot_count; i++) {
        count += checkpoint->shards[i].there;
        MR_ASSERT(checkpoint->shards[i].place < PLACES);
    }
    MR_ASSERT(count == checkpoint->count);
}

void depot_check_state(const depot *depot) {
    const checkpoint *making = &depot->making;
    MR_ASSERT(making->number == 0 || making->number > depot->real.number);                     /* 1 */
    check_checkpoint(making);                                                                  /* 2 */
    check_checkpoint(&depot->real);                                                            /* 2 */
    for (size_t i = 0; i < DEPOT_KEPT - 1; i++) check_checkpoint(&depot->old[i]);              /* 2 */
    MR_ASSERT(!depot->unsure || (making->number != 0 && making->count == making->slot_count)); /* 4 */
    MR_ASSERT(depot->open || (making->number == 0 && !depot->unsure));                         /* 5 */
    MR_ASSERT(!depot->foreign || !depot->open);                                                /* 7 */
}
