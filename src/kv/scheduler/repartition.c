/* repartition.c — see repartition.h. Tested by tests/ps_repartition_test.c. */
#include "kv/scheduler/repartition.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/plural.h"
#include "kv/checkpoint/checkpoint_thread.h"
#include "kv/checkpoint/snapshot_file.h"
#include "kv/checkpoint/snapshot_merge.h"

typedef struct repartition {
    const repartition_options *options;
    checkpoint_store *store;
    uint32_t before, after;   /* slots of a table */
    mr_status unread;         /* error of the manifests; MR_OK: they were read */
    buffer *snapshots;        /* owned: of all slots before */
    snapshot_merge *parts[2]; /* owned: of the slots with rounds and without; NULL: there are none of that kind */
} repartition;

/* ---- Files. */

static mr_status encode(void *context, uint32_t slot, span snapshot, const byte_sink *file) {
    const repartition *change = context;
    return snapshot_file_encode(slot, snapshot, change->options->catalog, SNAPSHOT_FILE_CHECKED, file);
}

static mr_status decode(void *context, span file, buffer *snapshot) { return snapshot_file_decode(file, snapshot); }

static void on_trouble(void *context, mr_status status) { ((repartition *)context)->unread = status; }

static void send_nothing(void *context, const char *address, span bytes) {}

static const checkpoint_store_format format = {.ending = CHECKPOINT_THREAD_ENDING, .encode = encode, .decode = decode};

static checkpoint_store *open_store(repartition *change) {
    const checkpoint_store_options options = {.address = "",
                                              .controller = "",
                                              .disk = change->options->disk,
                                              .format = &format,
                                              .send = send_nothing,
                                              .on_trouble = on_trouble,
                                              .context = change};
    checkpoint_store *store = checkpoint_store_create(&options, 0);
    checkpoint_store_tick(store, 0); /* reads the manifests */
    return store;
}

/* ---- Slots: those with rounds, those without, the round state. */

static uint32_t kinds(const repartition_options *options) { return options->mixed ? 2 : 1; }

static uint32_t slots_in(const repartition_options *options, uint32_t table_slots) {
    return table_slots * kinds(options) + (options->mixed || options->rounds);
}

/* Returns the number of slots that a table has in the newest checkpoint. 0: there is no checkpoint, or its slots are of
 * another kind. */
static uint32_t table_slots(const repartition *change) {
    const repartition_options *options = change->options;
    uint32_t slots = checkpoint_store_slots(change->store), rest = slots_in(options, 0);
    return slots <= rest || (slots - rest) % kinds(options) != 0 ? 0 : (slots - rest) / kinds(options);
}

static mr_status make(void *context, uint32_t slot, buffer *out) {
    const repartition *change = context;
    uint32_t kind = slot / change->after;
    if (kind < kinds(change->options)) return snapshot_merge_write(change->parts[kind], slot % change->after, out);
    const buffer *round_state = &change->snapshots[slots_in(change->options, change->before) - 1];
    buffer_clear(out);
    return buffer_append(out, round_state->data, round_state->size);
}

static mr_status read_snapshots(repartition *change) {
    uint32_t count = slots_in(change->options, change->before);
    mr_status status = MR_OK;
    change->snapshots = xcalloc(count, sizeof *change->snapshots);
    for (uint32_t i = 0; i < count; i++) buffer_init(&change->snapshots[i], CHECKPOINT_STORE_FILE_MAX);
    for (uint32_t i = 0; i < count && status == MR_OK; i++)
        status = checkpoint_store_read(change->store, i, &change->snapshots[i]);
    return status;
}

static mr_status open_parts(repartition *change) {
    const repartition_options *options = change->options;
    span *spans = xcalloc(change->before, sizeof *spans);
    mr_status status = MR_OK;
    for (uint32_t kind = 0; kind < kinds(options) && status == MR_OK; kind++) {
        const buffer *first = &change->snapshots[kind * change->before];
        bool rounds = options->mixed ? kind == 0 : options->rounds;
        for (uint32_t i = 0; i < change->before; i++) spans[i] = span_of(first[i].data, first[i].size);
        status =
            snapshot_merge_open(spans, change->before, rounds, options->catalog, change->after, &change->parts[kind]);
    }
    free(spans);
    return status;
}

static void drop_parts(repartition *change) {
    for (size_t i = 0; i < 2; i++) snapshot_merge_close(change->parts[i]);
    for (uint32_t i = 0; change->snapshots != NULL && i < slots_in(change->options, change->before); i++)
        buffer_fini(&change->snapshots[i]);
    free(change->snapshots);
    change->snapshots = NULL;
    memset(change->parts, 0, sizeof change->parts);
}

/* Makes the slots of the newest checkpoint again; of the one before, if that is damaged. */
static mr_status recut(repartition *change) {
    uint64_t number;
    mr_status status;
    do {
        number = checkpoint_store_newest(change->store);
        change->before = table_slots(change);
        if (change->before == 0)
            return error_set(MR_CORRUPT, "checkpoint %llu has %u slots, which are not those of such a deployment",
                             (unsigned long long)number, checkpoint_store_slots(change->store));
        if (change->before == change->after) return MR_OK;
        status = read_snapshots(change);
        if (status == MR_OK) status = open_parts(change);
        if (status == MR_OK)
            status = checkpoint_store_recut(change->store, slots_in(change->options, change->after), make, change);
        drop_parts(change);
    } while (status == MR_CORRUPT && checkpoint_store_newest(change->store) < number &&
             !checkpoint_store_is_stuck(change->store));
    if (status == MR_OK)
        log_warn("the tables of checkpoint %llu in %s are distributed over %u slot%s in place of %u",
                 (unsigned long long)number, change->options->folder, change->after, plural(change->after),
                 change->before);
    return status;
}

/* ---- Decisions. */

/* Whether the number may change: the error of a change that would lose values. */
static mr_status check_change(const repartition *change, uint32_t slots) {
    const repartition_options *options = change->options;
    if (!options->stopped)
        return error_set(
            MR_INVALID,
            "the deployment in %s has %u slot%s and was not stopped on purpose: its servers may have newer "
            "values than its checkpoints. To change it to %u slot%s, start it without a number of slots, "
            "make a checkpoint (miniray ps checkpoint create), and stop its scheduler with SIGTERM",
            options->folder, slots, plural(slots), change->after, plural(change->after));
    if (change->unread != MR_OK)
        return error_set(change->unread, "the checkpoints in %s cannot be read, so its slots cannot become %u: %s",
                         options->folder, change->after, mr_status_text(change->unread));
    if (checkpoint_store_newest(change->store) == 0 && options->catalog->count != 0)
        return error_set(
            MR_INVALID,
            "the deployment in %s has %u slot%s, %zu table%s and no checkpoint; to change it to %u slot%s, "
            "make a checkpoint first (miniray ps checkpoint create)",
            options->folder, slots, plural(slots), options->catalog->count, plural(options->catalog->count),
            change->after, plural(change->after));
    return MR_OK;
}

static mr_status forget_map(const repartition_options *options) {
    uint64_t version;
    span value, key = span_of(CLUSTER_MAP_KEY, strlen(CLUSTER_MAP_KEY));
    metadata_db_get(options->db, key, &version, &value);
    return metadata_db_swap(options->db, key, version, (span){0}, 0);
}

/* `slots`: those of a table in the cluster map; 0: there is none. */
static mr_status change_to(repartition *change, uint32_t slots) {
    bool other = slots != 0 && slots != change->after;
    if (other) MR_TRY(check_change(change, slots));
    if (checkpoint_store_is_stuck(change->store)) return MR_OK; /* the scheduler reports it, and waits */
    if (checkpoint_store_newest(change->store) != 0) MR_TRY(recut(change));
    return other ? forget_map(change->options) : MR_OK;
}

mr_status repartition_folder(const repartition_options *options, uint32_t *slots) {
    repartition change = {.options = options};
    uint32_t known = options->map->number == 0 ? 0 : cluster_map_table_slots(options->map);
    change.store = open_store(&change);
    uint32_t saved = table_slots(&change);
    change.after = options->chosen != 0 ? options->chosen : known != 0 ? known : saved != 0 ? saved : options->usual;
    mr_status status = change_to(&change, known);
    checkpoint_store_destroy(change.store);
    if (status == MR_OK) *slots = change.after;
    return status;
}
