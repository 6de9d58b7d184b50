/* checkpoint_store.c — see checkpoint_store.h. */
#include "ps/checkpoint_store.h"

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
    HEAD_SIZE = 40,
    SHARD_SIZE = 25,
    SUM_SIZE = 8,
    PLACES = CHECKPOINT_STORE_KEPT + 1,
    MANIFEST_MAX = HEAD_SIZE + CLUSTER_MAP_SLOTS_MAX * SHARD_SIZE + SUM_SIZE
};
_Static_assert((int)CHECKPOINT_STORE_MANIFEST_MAX == (int)MANIFEST_MAX, "what others are told is true");

typedef checkpoint_store_shard shard;
typedef checkpoint_store_manifest checkpoint;

struct checkpoint_store {
    checkpoint_store_options options;
    batcher *batcher;
    bool open;               /* the manifests were read, or none exists */
    checkpoint real, making; /* the newest complete checkpoint, and the one in the making */
    /* earlier complete checkpoints, by index of their manifest; number 0: none */
    checkpoint old[CHECKPOINT_STORE_KEPT - 1];
    bool archived;   /* `old` has a copy of `real`, whose manifest is written under that name */
    bool unsure;     /* the manifest of `making` may or may not be on disk in place of that of `real` */
    bool foreign;    /* a manifest on disk has another format; `damage` has the text */
    bool stuck;      /* the checkpoint found damaged last has no earlier one */
    uint64_t sealed; /* no checkpoint is completed before a cluster map above this number is known */
    char damage[CHECKPOINT_STORE_DAMAGE_MAX]; /* text of the last damage; "": none */
    int64_t next_tick_us;
    uint64_t arrived; /* batcher_in at moved_us, when a piece of a cut arrived last or room was freed */
    int64_t moved_us;
};

static void tell_trouble(const checkpoint_store *store, mr_status status) {
    if (status != MR_OK && store->options.on_trouble != NULL) store->options.on_trouble(store->options.context, status);
}

/* ---- Files. */

void checkpoint_store_manifest_fini(checkpoint_store_manifest *manifest) {
    free(manifest->shards);
    *manifest = (checkpoint_store_manifest){0};
}

static void checkpoint_copy(checkpoint *to, const checkpoint *from) {
    MR_ASSERT(to != from && from->number != 0);
    checkpoint_store_manifest_fini(to);
    *to = *from;
    to->shards = xcopy(from->shards, from->slot_count * sizeof *to->shards);
}

void checkpoint_store_name_shard(char name[DISK_NAME_MAX], uint8_t place, uint32_t slot, const char *ending) {
    snprintf(name, DISK_NAME_MAX, "shard-%u-%u%s", place, slot, ending);
}

static void name_shard(const checkpoint_store *store, char name[DISK_NAME_MAX], uint8_t place, uint32_t slot) {
    const checkpoint_store_format *format = store->options.format;
    checkpoint_store_name_shard(name, place, slot, format == NULL ? "" : format->ending);
}

void checkpoint_store_name_old(char name[DISK_NAME_MAX], size_t index) {
    snprintf(name, DISK_NAME_MAX, CHECKPOINT_STORE_MANIFEST "-%zu", index);
}

static mr_status write_manifest(checkpoint_store *store, const char *name, const checkpoint *checkpoint,
                                uint64_t sealed) {
    size_t size = HEAD_SIZE + (size_t)checkpoint->slot_count * SHARD_SIZE + SUM_SIZE;
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    writer_u32(&writer, CHECKPOINT_STORE_MAGIC);
    writer_u64(&writer, checkpoint->number);
    writer_u64(&writer, checkpoint->version);
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
    mr_status status = disk_replace(store->options.disk, name, span_of(bytes, size));
    free(bytes);
    tell_trouble(store, status);
    return status;
}

static bool read_shards(reader *reader, checkpoint *checkpoint) {
    checkpoint->shards = xcalloc(checkpoint->slot_count + 1, sizeof *checkpoint->shards);
    for (; checkpoint->count < checkpoint->slot_count; checkpoint->count++) {
        shard *shard = &checkpoint->shards[checkpoint->count];
        *shard = (checkpoint_store_shard){.there = true, .place = reader_u8(reader)};
        shard->lsn = reader_u64(reader);
        shard->size = reader_u64(reader);
        shard->sum = reader_u64(reader);
        if (shard->place >= PLACES) return false;
    }
    return true;
}

/* False: *out and *sealed are unchanged. */
static bool decode_manifest(span bytes, checkpoint *out, uint64_t *sealed) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint32_t magic = reader_u32(&reader);
    checkpoint read = {.number = reader_u64(&reader)};
    read.version = magic == CHECKPOINT_STORE_MAGIC_3 ? 1 + read.number : reader_u64(&reader);
    read.generation = reader_u64(&reader);
    uint64_t seal = reader_u64(&reader);
    read.slot_count = reader_u32(&reader);
    bool known = magic == CHECKPOINT_STORE_MAGIC || magic == CHECKPOINT_STORE_MAGIC_3;
    if (reader.failed || !known || read.slot_count > CLUSTER_MAP_SLOTS_MAX) return false;
    if (reader_left(&reader) != (size_t)read.slot_count * SHARD_SIZE + SUM_SIZE) return false;
    uint64_t sum = XXH3_64bits(bytes.data, bytes.size - SUM_SIZE);
    if (!read_shards(&reader, &read) || reader_u64(&reader) != sum) {
        checkpoint_store_manifest_fini(&read);
        return false;
    }
    *out = read;
    *sealed = seal;
    return true;
}

mr_status checkpoint_store_manifest_decode(span bytes, checkpoint_store_manifest *out) {
    uint64_t sealed;
    if (decode_manifest(bytes, out, &sealed)) return MR_OK;
    return error_set(MR_CORRUPT, "malformed checkpoint manifest of %zu bytes", bytes.size);
}

/* Of another format only the first bytes (its number) and the last bytes (its checksum) are known. */
mr_status checkpoint_store_manifest_check(const char *name, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    const uint32_t known = format_of(CHECKPOINT_STORE_MAGIC, CHECKPOINT_STORE_MAGIC, sizeof(uint32_t));
    uint32_t found = format_of(reader_u32(&reader), CHECKPOINT_STORE_MAGIC, sizeof(uint32_t));
    if (found == 0 || found == known || found == known - 1 || !format_is_sealed(bytes)) return MR_OK;
    return format_reject(name, found, known, FORMAT_USE_WRITER ", or begin in another folder");
}

mr_status checkpoint_store_check_folder(disk disk) {
    mr_status status = MR_OK;
    buffer bytes;
    buffer_init(&bytes, MANIFEST_MAX);
    for (size_t i = 0; i < CHECKPOINT_STORE_KEPT && status == MR_OK; i++) {
        char name[DISK_NAME_MAX] = CHECKPOINT_STORE_MANIFEST;
        if (i > 0) checkpoint_store_name_old(name, i - 1);
        if (disk_read_all(disk, name, MANIFEST_MAX, &bytes) != MR_OK) continue;
        status = checkpoint_store_manifest_check(name, span_of(bytes.data, bytes.size));
    }
    buffer_fini(&bytes);
    return status;
}

static void tell_damage(checkpoint_store *store, const char *file, bool found) {
    if (found)
        snprintf(store->damage, sizeof store->damage,
                 "checkpoint file %s is damaged; checkpoint %" PRIu64 " is used instead", file, store->real.number);
    else
        snprintf(store->damage, sizeof store->damage, "checkpoint file %s is damaged, and no other is left", file);
}

/* False: the disk cannot be read now. *damaged: the file exists, but is not a valid manifest. */
static bool read_manifest(checkpoint_store *store, const char *name, checkpoint *out, uint64_t *sealed, bool *damaged) {
    buffer bytes;
    buffer_init(&bytes, MANIFEST_MAX);
    mr_status status = disk_read_all(store->options.disk, name, MANIFEST_MAX, &bytes);
    *damaged =
        status == MR_TOO_LARGE || (status == MR_OK && !decode_manifest(span_of(bytes.data, bytes.size), out, sealed));
    if (status == MR_OK && checkpoint_store_manifest_check(name, span_of(bytes.data, bytes.size)) != MR_OK) {
        store->foreign = true;
        snprintf(store->damage, sizeof store->damage, "%s", mr_last_error());
    }
    buffer_fini(&bytes);
    bool known = status == MR_OK || status == MR_NOT_FOUND || *damaged;
    tell_trouble(store, known ? MR_OK : status);
    return known;
}

static void forget_all(checkpoint_store *store) {
    checkpoint_store_manifest_fini(&store->real);
    for (size_t i = 0; i < CHECKPOINT_STORE_KEPT - 1; i++) checkpoint_store_manifest_fini(&store->old[i]);
}

/* The newest earlier checkpoint replaces the damaged one as `real`. False: there is no earlier one. */
static bool fall_back(checkpoint_store *store, const char *file) {
    const checkpoint *best = NULL;
    uint64_t below = store->real.number == 0 ? UINT64_MAX : store->real.number;
    for (size_t i = 0; i < CHECKPOINT_STORE_KEPT - 1; i++) {
        const checkpoint *old = &store->old[i];
        bool fits = store->options.slot_count == 0 || old->slot_count == store->options.slot_count;
        if (old->number != 0 && old->number < below && fits && (best == NULL || old->number > best->number)) best = old;
    }
    if (best != NULL) {
        checkpoint_copy(&store->real, best);
        store->archived = true;
    }
    store->stuck = best == NULL;
    tell_damage(store, file, best != NULL);
    return best != NULL;
}

/* A checkpoint of another number of slots is not restored. */
static void check_slots(checkpoint_store *store) {
    uint32_t expected = store->options.slot_count;
    if (expected == 0 || store->real.number == 0 || store->real.slot_count == expected) return;
    snprintf(store->damage, sizeof store->damage,
             "checkpoint %" PRIu64 " has %u slots, the deployment %u: start the scheduler again, which changes it",
             store->real.number, store->real.slot_count, expected);
    forget_all(store);
    store->open = false;
    store->stuck = true;
}

/* Reads all manifests. A damaged file is not changed, so that it can be inspected. */
static void open_disk(checkpoint_store *store) {
    bool damaged = false, before = false;
    uint64_t sealed = 0, last = 0;
    forget_all(store);
    store->foreign = false;
    if (!read_manifest(store, CHECKPOINT_STORE_MANIFEST, &store->real, &store->sealed, &damaged)) return;
    for (size_t i = 0; i < CHECKPOINT_STORE_KEPT - 1; i++) {
        char name[DISK_NAME_MAX];
        bool old_damaged;
        checkpoint_store_name_old(name, i);
        if (!read_manifest(store, name, &store->old[i], &sealed, &old_damaged)) return;
        if (sealed > last) last = sealed;
        before = before || store->old[i].number != 0;
    }
    if (store->foreign) {
        forget_all(store);
        store->stuck = true;
        return;
    }
    bool lost = damaged || (before && store->real.number == 0);
    if (lost && last > store->sealed) store->sealed = last;
    store->open = !lost || fall_back(store, CHECKPOINT_STORE_MANIFEST);
    if (store->open) check_slots(store);
}

/* ---- Snapshots. */

static bool is_sealed(const checkpoint_store *store) {
    return store->sealed != 0 && batcher_map(store->batcher)->number <= store->sealed && !MUTATED("no-seal");
}

static void begin(checkpoint_store *store, uint64_t number, uint64_t clock) {
    const cluster_map *map = batcher_map(store->batcher);
    MR_ASSERT(store->open && !store->unsure && number > store->making.number && number > store->real.number);
    checkpoint_store_manifest_fini(&store->making);
    store->making = (checkpoint){.number = number,
                                 .clock = clock,
                                 .generation = map->generation,
                                 .slot_count = map->slot_count,
                                 .shards = xcalloc(map->slot_count + 1, sizeof(shard))};
}

/* A place that none of the kept checkpoints uses for this slot. */
static uint8_t free_place(const checkpoint_store *store, uint32_t slot) {
    uint32_t used = 0;
    if (slot < store->real.slot_count) used |= 1u << store->real.shards[slot].place;
    for (size_t i = 0; i < CHECKPOINT_STORE_KEPT - 1; i++)
        if (slot < store->old[i].slot_count) used |= 1u << store->old[i].shards[slot].place;
    uint8_t place = 0;
    while ((used >> place & 1) != 0 && !MUTATED("one-place")) place++;
    MR_ASSERT(place < PLACES);
    return place;
}

/* Reads a snapshot. MR_CORRUPT: it differs from the manifest's size or checksum. */
static mr_status read_shard(const checkpoint_store *store, const shard *shard, uint32_t slot, buffer *out) {
    char name[DISK_NAME_MAX];
    name_shard(store, name, shard->place, slot);
    mr_status status = disk_read_all(store->options.disk, name, (size_t)shard->size, out);
    bool good = status == MR_OK && out->size == shard->size &&
                (XXH3_64bits(out->data, out->size) == shard->sum || MUTATED("no-sum"));
    if (status == MR_OK || status == MR_NOT_FOUND || status == MR_TOO_LARGE) status = good ? MR_OK : MR_CORRUPT;
    return status;
}

/* ---- Files of slots. */

typedef struct slot_file { /* the file of a snapshot: what its format makes of it */
    const checkpoint_store *store;
    uint32_t slot;
    span snapshot;
    const byte_sink *out; /* NULL: the file is only measured */
    XXH3_state_t *hash;   /* owned */
    uint64_t size;
} slot_file;

static mr_status put_measured(void *context, span bytes) {
    slot_file *file = context;
    if (bytes.size != 0) XXH3_64bits_update(file->hash, bytes.data, bytes.size);
    file->size += bytes.size;
    return file->out == NULL ? MR_OK : byte_sink_put(file->out, bytes);
}

/* Puts the file, and measures it. */
static mr_status put_file(void *context, const byte_sink *out) {
    slot_file *file = context;
    const checkpoint_store_format *format = file->store->options.format;
    const byte_sink measured = {put_measured, file};
    XXH3_64bits_reset(file->hash);
    file->size = 0;
    file->out = out;
    if (format == NULL) return put_measured(file, file->snapshot);
    return format->encode(file->store->options.context, file->slot, file->snapshot, &measured);
}

/* True if the newest checkpoint has the same bytes for this slot. Reads the file, so a damaged one is not reused. */
static bool is_unchanged(slot_file *file) {
    const checkpoint *real = &file->store->real;
    uint32_t slot = file->slot;
    if (slot >= real->slot_count || put_file(file, NULL) != MR_OK) return false;
    if (real->shards[slot].size != file->size || real->shards[slot].sum != XXH3_64bits_digest(file->hash)) return false;
    char name[DISK_NAME_MAX];
    name_shard(file->store, name, real->shards[slot].place, slot);
    return disk_compare(file->store->options.disk, name, file->size, put_file, file) == MR_OK;
}

static mr_status save_file(checkpoint_store *store, const slot_message *message, slot_file *file) {
    char name[DISK_NAME_MAX];
    MR_ASSERT(message->slot < store->making.slot_count && message->name == store->making.number);
    bool same = is_unchanged(file);
    uint8_t place = same ? store->real.shards[message->slot].place : free_place(store, message->slot);
    name_shard(store, name, place, message->slot);
    if (!same) MR_TRY(disk_replace_by(store->options.disk, name, !MUTATED("shard-no-sync"), put_file, file));
    store->making.shards[message->slot] =
        (shard){true, place, message->lsn, file->size, XXH3_64bits_digest(file->hash)};
    return MR_OK;
}

static mr_status save(checkpoint_store *store, const slot_message *message) {
    slot_file file = {.store = store, .slot = message->slot, .snapshot = message->payload, .hash = XXH3_createState()};
    MR_ASSERT(file.hash != NULL);
    mr_status status = save_file(store, message, &file);
    XXH3_freeState(file.hash);
    tell_trouble(store, status);
    if (status == MR_OK) store->making.count++;
    MR_ASSERT(store->making.count <= store->making.slot_count);
    return status;
}

/* Keeps the newest checkpoint under the name of the oldest one. */
static bool archive(checkpoint_store *store) {
    MR_ASSERT(store->open);
    char name[DISK_NAME_MAX];
    size_t oldest = 0;
    if (store->real.number == 0 || store->archived) return true;
    for (size_t i = 0; i < CHECKPOINT_STORE_KEPT - 1; i++)
        if (store->old[i].number < store->old[oldest].number) oldest = i;
    checkpoint_store_name_old(name, oldest);
    if (write_manifest(store, name, &store->real, store->sealed) != MR_OK) return false;
    checkpoint_copy(&store->old[oldest], &store->real);
    store->archived = true;
    return true;
}

static void make_whole(checkpoint_store *store) {
    checkpoint *making = &store->making;
    uint32_t enough = MUTATED("manifest-first") ? 1 : making->slot_count;
    bool refused = store->options.exact && making->uneven && !MUTATED("any-clock");
    if (making->number == 0 || making->count < enough || refused || is_sealed(store) || !archive(store)) return;
    store->unsure = write_manifest(store, CHECKPOINT_STORE_MANIFEST, making, store->sealed) != MR_OK;
    if (store->unsure) return; /* the next tick tries again */
    checkpoint_store_manifest_fini(&store->real);
    store->real = *making;
    *making = (checkpoint){0};
    store->archived = store->stuck = false;
    if (store->options.on_whole != NULL) store->options.on_whole(store->options.context, store);
    batcher_add(store->batcher, store->options.controller,
                &(slot_message){.kind = SLOT_MESSAGE_WHOLE, .name = store->real.number, .prev = store->real.version});
}

/* The checkpoint was ordered at two versions. With a cut of the higher one it is begun anew. */
static bool mixes(const checkpoint_store *store, const slot_message *message) {
    const checkpoint *making = &store->making;
    bool differs = message->prev > making->version && making->version != 0;
    return differs && message->name == making->number && message->payload.size != 0 && !store->unsure &&
           !MUTATED("mixes-versions");
}

/* A cut of the lower of two versions. */
static bool is_outdated(const checkpoint_store *store, const slot_message *message) {
    const checkpoint *making = &store->making;
    return message->name == making->number && message->prev != 0 && message->prev < making->version &&
           !MUTATED("mixes-versions");
}

/* Stores a head's snapshot. SAVED lets the head drop the snapshot: it is stored, or it is too late. A CUT without a
 * payload asks whether the snapshot is stored; RESEND requests it if it is not, because a snapshot may be large. */
static void take_cut(checkpoint_store *store, const slot_message_head *from, const slot_message *message) {
    checkpoint *making = &store->making;
    if (message->slot >= batcher_map(store->batcher)->slot_count) return;
    if (mixes(store, message)) checkpoint_store_manifest_fini(making);
    bool late = message->name <= store->real.number || message->name < making->number || is_outdated(store, message);
    bool there = late || (message->name == making->number && making->shards[message->slot].there);
    if (!late) {
        bool begins = message->name > making->number;
        if (is_sealed(store) || (begins && store->unsure)) return;
        if (begins && message->payload.size != 0) begin(store, message->name, message->commit);
        if (message->payload.size != 0 && message->prev != 0) making->version = message->prev;
        if (message->payload.size != 0 && (message->commit == 0 || message->commit != making->clock))
            making->uneven = true;
        if (!there && message->payload.size != 0 && save(store, message) != MR_OK) return;
    }
    struct slot_message answer = {.kind = SLOT_MESSAGE_SAVED, .slot = message->slot, .name = message->name};
    if (!there && message->payload.size == 0) answer.status = SLOT_MESSAGE_RESEND;
    batcher_add(store->batcher, from->address, &answer);
    make_whole(store);
}

/* ---- Restarting from a checkpoint. */

static void take_seal(checkpoint_store *store, const slot_message_head *from, const slot_message *message) {
    make_whole(store);
    if (batcher_map(store->batcher)->number > message->name || store->unsure) return;
    if (store->sealed < message->name &&
        write_manifest(store, CHECKPOINT_STORE_MANIFEST, &store->real, message->name) != MR_OK)
        return;
    if (store->sealed < message->name) store->sealed = message->name;
    uint64_t sealed = MUTATED("seal-forgets") ? 0 : store->sealed;
    batcher_add(store->batcher, from->address,
                &(struct slot_message){
                    .kind = SLOT_MESSAGE_SEALED, .name = message->name, .lsn = store->real.number, .commit = sealed});
}

/* A damaged snapshot makes its checkpoint unusable: the next generation begins from the one before. */
static void give_up(checkpoint_store *store, const shard *shard, uint32_t slot) {
    char name[DISK_NAME_MAX];
    name_shard(store, name, shard->place, slot);
    if (!store->unsure) (void)fall_back(store, name);
}

/* Reads the snapshot and decodes it to the bytes that the head sent. */
static mr_status load(const checkpoint_store *store, const shard *shard, uint32_t slot, buffer *out) {
    const checkpoint_store_format *format = store->options.format;
    if (format == NULL) return read_shard(store, shard, slot, out);
    buffer file;
    buffer_init(&file, CHECKPOINT_STORE_FILE_MAX);
    mr_status status = read_shard(store, shard, slot, &file);
    if (status == MR_OK) status = format->decode(store->options.context, span_of(file.data, file.size), out);
    buffer_fini(&file);
    return status;
}

static void take_fetch(checkpoint_store *store, const slot_message_head *from, const slot_message *message) {
    const checkpoint *real = &store->real;
    if (message->name != real->number || message->slot >= real->slot_count) return;
    const shard *shard = &real->shards[message->slot];
    if (batcher_ask(store->batcher, from->address, message->slot, SLOT_MESSAGE_SHARD)) return; /* it is on its way */
    uint64_t out = batcher_out(store->batcher);
    if (out != 0 && out + shard->size > store->options.room) {
        batcher_ask_all(store->batcher);
        return;
    }
    buffer bytes;
    buffer_init(&bytes, CHECKPOINT_STORE_FILE_MAX);
    mr_status status = load(store, shard, message->slot, &bytes);
    if (status == MR_OK)
        batcher_add(store->batcher, from->address,
                    &(struct slot_message){.kind = SLOT_MESSAGE_SHARD,
                                           .slot = message->slot,
                                           .epoch = message->epoch,
                                           .lsn = shard->lsn,
                                           .name = message->name,
                                           .payload = span_of(bytes.data, bytes.size)});
    else if (status == MR_CORRUPT)
        give_up(store, shard, message->slot);
    else
        tell_trouble(store, status);
    buffer_fini(&bytes);
}

/* ---- Another number of slots. */

uint32_t checkpoint_store_slots(const checkpoint_store *store) { return store->real.slot_count; }

mr_status checkpoint_store_read(checkpoint_store *store, uint32_t slot, buffer *out) {
    MR_ASSERT(slot < store->real.slot_count);
    const shard *shard = &store->real.shards[slot];
    mr_status status = load(store, shard, slot, out);
    if (status == MR_CORRUPT) give_up(store, shard, slot);
    return status;
}

/* Removes the files of the slots of a checkpoint that no kept checkpoint uses. */
static void remove_files(checkpoint_store *store, const checkpoint *gone) {
    const checkpoint *kept[CHECKPOINT_STORE_KEPT] = {&store->real};
    for (size_t i = 1; i < CHECKPOINT_STORE_KEPT; i++) kept[i] = &store->old[i - 1];
    for (uint32_t slot = 0; slot < gone->slot_count; slot++) {
        char name[DISK_NAME_MAX];
        bool used = false;
        for (size_t i = 0; i < CHECKPOINT_STORE_KEPT; i++)
            used = used || (slot < kept[i]->slot_count && kept[i]->shards[slot].place == gone->shards[slot].place);
        name_shard(store, name, gone->shards[slot].place, slot);
        if (!used) (void)store->options.disk.ops->remove(store->options.disk.self, name);
    }
}

mr_status checkpoint_store_recut(checkpoint_store *store, uint32_t slot_count, checkpoint_store_make_fn *make,
                                 void *context) {
    checkpoint *making = &store->making, gone = store->real;
    MR_ASSERT(store->open && gone.number != 0 && making->number == 0 && slot_count <= CLUSTER_MAP_SLOTS_MAX);
    slot_message cut = {.name = gone.number};
    for (uint32_t i = 0; i < gone.slot_count; i++)
        if (gone.shards[i].lsn > cut.lsn) cut.lsn = gone.shards[i].lsn;
    *making = (checkpoint){.number = gone.number,
                           .generation = gone.generation,
                           .version = gone.version,
                           .slot_count = slot_count,
                           .shards = xcalloc(slot_count + 1, sizeof(shard))};
    mr_status status = MR_OK;
    buffer bytes;
    buffer_init(&bytes, CHECKPOINT_STORE_FILE_MAX);
    for (; cut.slot < slot_count && status == MR_OK; cut.slot++) {
        status = make(context, cut.slot, &bytes);
        cut.payload = span_of(bytes.data, bytes.size);
        if (status == MR_OK) status = save(store, &cut);
    }
    buffer_fini(&bytes);
    if (status == MR_OK) status = write_manifest(store, CHECKPOINT_STORE_MANIFEST, making, store->sealed);
    if (status == MR_OK) {
        store->real = *making;
        *making = gone;
        store->archived = false;
        remove_files(store, making);
    }
    checkpoint_store_manifest_fini(making);
    return status;
}

static void on_part(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes) {
    checkpoint_store *store = context;
    if (!store->open) return;
    if (message->kind == SLOT_MESSAGE_CUT && from->who < SLOT_MESSAGE_RANK) take_cut(store, from, message);
    if (message->kind == SLOT_MESSAGE_FETCH && from->who < SLOT_MESSAGE_RANK) take_fetch(store, from, message);
    if (message->kind == SLOT_MESSAGE_SEAL && from->who == SLOT_MESSAGE_CONTROLLER) take_seal(store, from, message);
}

static void on_map(void *context, const cluster_map *map) {
    checkpoint_store *store = context;
    bool other = store->making.number != 0 && store->making.generation != map->generation;
    if (!other || MUTATED("mixes-generations")) return;
    checkpoint_store_manifest_fini(&store->making);
    store->unsure = false; /* the seal settled that manifest before the new generation could begin */
}

/* ---- Creation and death. */

checkpoint_store *checkpoint_store_create(const checkpoint_store_options *options, int64_t now_us) {
    MR_ASSERT(options->disk.ops != NULL && options->send != NULL &&
              strlen(options->controller) < SLOT_MESSAGE_ADDRESS_MAX);
    checkpoint_store *store = XNEW(checkpoint_store, .options = *options, .next_tick_us = now_us, .moved_us = now_us);
    if (store->options.room == 0) store->options.room = CHECKPOINT_STORE_ROOM;
    batcher_host host = {.send = options->send,
                         .send_context = options->context,
                         .on_map = on_map,
                         .on_part = on_part,
                         .context = store,
                         .controller = options->controller,
                         .takes_pieces = true,
                         .piece = options->piece,
                         .room = store->options.room};
    store->batcher = batcher_create(&host, SLOT_MESSAGE_CHECKPOINTS, options->address);
    /* the transfers of the process before are no transfers of this one */
    batcher_set_incarnation(store->batcher, MUTATED("one-store") ? 1 : 1 + (uint64_t)now_us);
    return store;
}

void checkpoint_store_destroy(checkpoint_store *store) {
    forget_all(store);
    checkpoint_store_manifest_fini(&store->making);
    batcher_destroy(store->batcher);
    free(store);
}

void checkpoint_store_take_bytes(checkpoint_store *store, span bytes, shared_bytes *shared) {
    batcher_take_bytes(store->batcher, bytes, shared);
    CHECK_INVARIANTS(store->making.slot_count, checkpoint_store_check_state(store));
}

int64_t checkpoint_store_next_us(const checkpoint_store *store) { return store->next_tick_us; }

/* Reports the state to the controller. Without a readable checkpoint the report has only the damage. */
/* Frees the room of cuts that do not go on while others are refused: their heads have given them up. */
static void free_room(checkpoint_store *store, int64_t now_us) {
    bool refused = batcher_refused(store->batcher), moves = batcher_in(store->batcher) != store->arrived;
    bool due = refused && now_us - store->moved_us >= CHECKPOINT_STORE_STALL_US && !MUTATED("room-held");
    if (!moves && due) batcher_free_room(store->batcher);
    if (moves || due) store->moved_us = now_us;
    store->arrived = batcher_in(store->batcher);
}

void checkpoint_store_tick(checkpoint_store *store, int64_t now_us) {
    store->next_tick_us = now_us + CHECKPOINT_STORE_TICK_US;
    free_room(store, now_us);
    if (!store->open) open_disk(store);
    if (store->open) make_whole(store);
    slot_message whole = {.kind = SLOT_MESSAGE_WHOLE,
                          .status = store->open ? SLOT_MESSAGE_OK : SLOT_MESSAGE_GONE,
                          .name = store->real.number,
                          .lsn = store->making.number,
                          .commit = store->making.count,
                          .epoch = batcher_in(store->batcher),
                          .prev = store->real.version,
                          .payload = span_of(store->damage, strlen(store->damage))};
    batcher_add(store->batcher, store->options.controller, store->open || whole.payload.size != 0 ? &whole : NULL);
    batcher_flush(store->batcher);
    CHECK_INVARIANTS(store->making.slot_count, checkpoint_store_check_state(store));
}

mr_status checkpoint_store_check(const checkpoint_store *store) {
    return store->damage[0] == '\0' ? MR_OK : error_set(MR_CORRUPT, "%s", store->damage);
}

bool checkpoint_store_is_stuck(const checkpoint_store *store) { return store->stuck; }

uint64_t checkpoint_store_newest(const checkpoint_store *store) { return store->real.number; }

uint64_t checkpoint_store_oldest(const checkpoint_store *store, uint64_t *version) {
    const checkpoint *oldest = &store->real;
    for (size_t i = 0; i < sizeof store->old / sizeof *store->old; i++)
        if (store->old[i].number != 0 && store->old[i].number < oldest->number) oldest = &store->old[i];
    *version = oldest->version == 0 ? 0 : oldest->version - 1;
    return oldest->number;
}
uint64_t checkpoint_store_lsn(const checkpoint_store *store, uint32_t slot) {
    return slot < store->real.slot_count ? store->real.shards[slot].lsn : 0;
}

static void check_checkpoint(const checkpoint *checkpoint) {
    uint32_t count = 0;
    MR_ASSERT(checkpoint->slot_count <= CLUSTER_MAP_SLOTS_MAX &&
              (checkpoint->slot_count == 0 || checkpoint->shards != NULL));
    for (uint32_t i = 0; i < checkpoint->slot_count; i++) {
        count += checkpoint->shards[i].there;
        MR_ASSERT(checkpoint->shards[i].place < PLACES);
    }
    MR_ASSERT(count == checkpoint->count);
}

void checkpoint_store_check_state(const checkpoint_store *store) {
    const checkpoint *making = &store->making;
    MR_ASSERT(making->number == 0 || making->number > store->real.number);                     /* 1 */
    check_checkpoint(making);                                                                  /* 2 */
    check_checkpoint(&store->real);                                                            /* 2 */
    for (size_t i = 0; i < CHECKPOINT_STORE_KEPT - 1; i++) check_checkpoint(&store->old[i]);   /* 2 */
    MR_ASSERT(!store->unsure || (making->number != 0 && making->count == making->slot_count)); /* 4 */
    MR_ASSERT(store->open || (making->number == 0 && !store->unsure));                         /* 5 */
    MR_ASSERT(!store->foreign || !store->open);                                                /* 8 */
}
