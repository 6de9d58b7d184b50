/* sim_disk.c — see sim_disk.h.
 *
 * rename and remove are durable when they return, so a crash can lose only one thing about names: a file that was
 * created and never synced. */
#include "sim/sim_disk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { FILES_MAX = 128, FILE_BYTES_MAX = 1 << 20 };

const sim_disk_conditions sim_disk_calm = {.delay_min_us = 50, .delay_max_us = 200};

typedef struct change { /* a write that is not durable yet */
    list of_file;
    uint64_t offset;
    size_t size;
    uint8_t data[];
} change;

typedef struct file {
    char name[DISK_NAME_MAX + 1];
    buffer seen, durable;
    list changes;
    bool named; /* its name is durable */
} file;

struct sim_disk {
    sim_node *node;
    rng rng;
    sim_disk_conditions conditions;
    file *files[FILES_MAX]; /* owned */
    size_t file_count;
};

/* ---- Files. */

static file *find(const sim_disk *disk, const char *name) {
    for (size_t i = 0; i < disk->file_count; i++)
        if (strcmp(disk->files[i]->name, name) == 0) return disk->files[i];
    return NULL;
}

static void forget_changes(file *file) {
    for (list *item; (item = list_pop_front(&file->changes)) != NULL;) free(container_of(item, change, of_file));
}

static void destroy_file(sim_disk *disk, file *file) {
    for (size_t i = 0; i < disk->file_count; i++)
        if (disk->files[i] == file) disk->files[i--] = disk->files[--disk->file_count];
    forget_changes(file);
    buffer_fini(&file->seen);
    buffer_fini(&file->durable);
    free(file);
}

static file *create_file(sim_disk *disk, const char *name) {
    MR_ASSERT(disk->file_count < FILES_MAX);
    file *file = xcalloc(1, sizeof *file);
    strcpy(file->name, name);
    buffer_init(&file->seen, FILE_BYTES_MAX);
    buffer_init(&file->durable, FILE_BYTES_MAX);
    list_init(&file->changes);
    disk->files[disk->file_count++] = file;
    return file;
}

static mr_status put_bytes(buffer *content, uint64_t offset, const uint8_t *data, size_t size) {
    if (offset > FILE_BYTES_MAX || size > FILE_BYTES_MAX - offset) return error_set(MR_NOMEM, "the disk is full");
    size_t end = (size_t)offset + size;
    if (end > content->size) {
        MR_TRY(buffer_reserve(content, end - content->size));
        memset(content->data + content->size, 0, end - content->size);
        content->size = end;
    }
    if (size != 0) memcpy(content->data + offset, data, size);
    return MR_OK;
}

static void apply(buffer *content, const change *change) {
    MR_ASSERT(put_bytes(content, change->offset, change->data, change->size) == MR_OK);
}

static mr_status make_change(file *file, uint64_t offset, span data) {
    MR_TRY(put_bytes(&file->seen, offset, data.data, data.size));
    change *change = xcalloc(1, sizeof *change + data.size);
    change->offset = offset;
    change->size = data.size;
    if (data.size != 0) memcpy(change->data, data.data, data.size);
    list_push_back(&file->changes, &change->of_file);
    return MR_OK;
}

/* ---- Fate of changes that were not synced. */

/* Sectors are kept independently; the last kept sector may be cut in its middle. */
static void tear(sim_disk *disk, buffer *content, const change *change) {
    for (size_t at = 0; at < change->size;) {
        size_t part = SIM_DISK_SECTOR - (size_t)((change->offset + at) % SIM_DISK_SECTOR);
        if (part > change->size - at) part = change->size - at;
        size_t kept = rng_chance(&disk->rng, 0.5) ? part : (size_t)rng_below(&disk->rng, part + 1);
        if (rng_chance(&disk->rng, 0.7))
            MR_ASSERT(put_bytes(content, change->offset + at, change->data + at, kept) == MR_OK);
        at += part;
    }
}

static void settle_by_chance(sim_disk *disk, file *file) {
    list_for_each (item, &file->changes) {
        const change *change = container_of(item, struct change, of_file);
        uint64_t fate = rng_below(&disk->rng, 3);
        if (fate == 0) apply(&file->durable, change);
        if (fate == 2) tear(disk, &file->durable, change);
    }
    forget_changes(file);
}

static void settle_all(file *file) {
    list_for_each (item, &file->changes) apply(&file->durable, container_of(item, change, of_file));
    forget_changes(file);
}

void sim_disk_lose(sim_disk *disk) {
    while (disk->file_count > 0) destroy_file(disk, disk->files[0]);
}

const char *sim_disk_rot(sim_disk *disk) {
    if (disk->file_count == 0) return NULL;
    file *file = disk->files[rng_below(&disk->rng, disk->file_count)];
    if (file->durable.size == 0 || file->seen.size < file->durable.size) return NULL;
    size_t at = (size_t)rng_below(&disk->rng, file->durable.size);
    uint8_t bit = (uint8_t)(1u << rng_below(&disk->rng, 8));
    file->durable.data[at] ^= bit;
    file->seen.data[at] ^= bit;
    return file->name;
}

void sim_disk_crash(sim_disk *disk) {
    for (size_t i = disk->file_count; i-- > 0;) {
        file *file = disk->files[i];
        settle_by_chance(disk, file);
        if (!file->named && rng_chance(&disk->rng, 0.5)) {
            destroy_file(disk, file);
            continue;
        }
        file->named = true;
        buffer_clear(&file->seen);
        MR_ASSERT(buffer_append(&file->seen, file->durable.data, file->durable.size) == MR_OK);
    }
}

/* ---- Operations. */

static mr_status begin(sim_disk *disk, const char *name) {
    if (!sim_node_up(disk->node) || sim_node_dying(disk->node)) return error_set(MR_CLOSED, "the process has ended");
    return disk_check_name(name);
}

static mr_status missing(const char *name) { return error_set(MR_NOT_FOUND, "there is no file '%s'", name); }

/* True with the given probability; records it in the trace. */
static bool strikes(sim_disk *disk, double chance, const char *what) {
    if (!rng_chance(&disk->rng, chance)) return false;
    sim *sim = sim_node_sim(disk->node);
    sim_trace_record(sim_get_trace(sim), sim_now_us(sim), (uint32_t)sim_node_index(disk->node), SIM_TRACE_DISK, 0, 0);
    sim_trace_tell(sim_get_trace(sim), sim_now_us(sim), sim_node_name(disk->node), "disk: %s", what);
    sim_count(sim, "disk failures", 1);
    return true;
}

static bool crash_strikes(sim_disk *disk, const char *what) {
    if (!rng_chance(&disk->rng, disk->conditions.crash) || !sim_may_crash(disk->node)) return false;
    strikes(disk, 1, what);
    sim_node_crash(disk->node, rng_chance(&disk->rng, 0.3));
    return true;
}

static void take_time(sim_disk *disk) {
    sim_node_spend(disk->node, rng_between(&disk->rng, disk->conditions.delay_min_us, disk->conditions.delay_max_us));
}

static mr_status sim_disk_read(void *self, const char *name, uint64_t offset, void *data, size_t size, size_t *got) {
    sim_disk *disk = self;
    MR_TRY(begin(disk, name));
    file *file = find(disk, name);
    if (file == NULL) return missing(name);
    if (strikes(disk, disk->conditions.read_error, "a read fails")) return error_set(MR_IO, "cannot read '%s'", name);
    size_t left = offset < file->seen.size ? file->seen.size - (size_t)offset : 0;
    *got = size < left ? size : left;
    if (*got != 0) memcpy(data, file->seen.data + offset, *got);
    return MR_OK;
}

static mr_status sim_disk_size(void *self, const char *name, uint64_t *out) {
    sim_disk *disk = self;
    MR_TRY(begin(disk, name));
    file *file = find(disk, name);
    if (file == NULL) return missing(name);
    *out = file->seen.size;
    return MR_OK;
}

static mr_status sim_disk_write(void *self, const char *name, uint64_t offset, span data) {
    sim_disk *disk = self;
    MR_TRY(begin(disk, name));
    file *file = find(disk, name);
    if (file == NULL) file = create_file(disk, name);
    span part = span_of(data.data, (size_t)rng_below(&disk->rng, data.size + 1));
    mr_status status = MR_OK;
    if (crash_strikes(disk, "a crash inside a write") || strikes(disk, disk->conditions.write_error, "a write fails"))
        status = error_set(MR_IO, "cannot write '%s'", name);
    else if (strikes(disk, disk->conditions.full, "no space"))
        status = error_set(MR_NOMEM, "cannot write '%s': no space", name);
    mr_status done = make_change(file, offset, status == MR_OK ? data : part);
    return status == MR_OK ? done : status;
}

static mr_status sim_disk_sync_data(void *self, const char *name) {
    sim_disk *disk = self;
    MR_TRY(begin(disk, name));
    file *file = find(disk, name);
    if (file == NULL) return missing(name);
    bool late = rng_chance(&disk->rng, 0.5);
    if (crash_strikes(disk, late ? "a crash after a sync" : "a crash before a sync")) {
        if (late) settle_all(file);
        return error_set(MR_IO, "cannot sync '%s'", name);
    }
    take_time(disk);
    if (strikes(disk, disk->conditions.sync_error, "a sync fails")) {
        settle_by_chance(disk, file);
        return error_set(MR_IO, "cannot sync '%s'", name);
    }
    settle_all(file);
    return MR_OK;
}

/* Whether a change of names takes effect; a failure may occur before or after the change. */
static mr_status change_names(sim_disk *disk, const char *name, bool *happens) {
    bool late = rng_chance(&disk->rng, 0.5);
    bool fails = crash_strikes(disk, late ? "a crash after a change of names" : "a crash before a change of names") ||
                 strikes(disk, disk->conditions.sync_error, "a change of names fails");
    *happens = late || !fails;
    if (!sim_node_dying(disk->node)) take_time(disk);
    return fails ? error_set(MR_IO, "cannot change the name '%s'", name) : MR_OK;
}

static mr_status sim_disk_rename(void *self, const char *from, const char *to) {
    sim_disk *disk = self;
    MR_TRY(begin(disk, from));
    MR_TRY(disk_check_name(to));
    file *file = find(disk, from);
    if (file == NULL) return missing(from);
    bool happens;
    mr_status status = change_names(disk, from, &happens);
    struct file *old = find(disk, to);
    if (happens && old != file) {
        if (old != NULL) destroy_file(disk, old);
        strcpy(file->name, to);
    }
    if (happens) file->named = true;
    return status;
}

static mr_status sim_disk_remove(void *self, const char *name) {
    sim_disk *disk = self;
    MR_TRY(begin(disk, name));
    file *file = find(disk, name);
    if (file == NULL) return missing(name);
    bool happens;
    mr_status status = change_names(disk, name, &happens);
    if (happens) destroy_file(disk, file);
    return status;
}

static const disk_ops ops = {
    .name = "simulated",
    .read = sim_disk_read,
    .size = sim_disk_size,
    .write = sim_disk_write,
    .sync_data = sim_disk_sync_data,
    .rename = sim_disk_rename,
    .remove = sim_disk_remove,
};

/* ---- Creating, crashing, destroying. */

sim_disk *sim_disk_create(sim_node *node, rng rng) {
    sim_disk *disk = xcalloc(1, sizeof *disk);
    disk->node = node;
    disk->rng = rng;
    disk->conditions = sim_disk_calm;
    return disk;
}

void sim_disk_destroy(sim_disk *disk) {
    while (disk->file_count > 0) destroy_file(disk, disk->files[0]);
    free(disk);
}

disk sim_disk_ops(sim_disk *disk) { return (struct disk){&ops, disk}; }
void sim_disk_set(sim_disk *disk, const sim_disk_conditions *conditions) { disk->conditions = *conditions; }
