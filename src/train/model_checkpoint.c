/* model_checkpoint.c — see model_checkpoint.h. Tested by tests/model_save_test.c. */
#include "train/model_checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/format.h"
#include "net/disk.h"
#include "net/value.h"

#define MANIFEST "manifest"

enum {
    FORMAT = 1,
    OLD_MAX = 10 * 1000,
    STRATEGY_MAX = sizeof((mr_model_checkpoint *)NULL)->strategy,
    MANIFEST_MAX = 4 + 7 * 8 + 4 + STRATEGY_MAX + 8
};

typedef struct manifest {
    uint64_t place, size, sum;
    mr_model_checkpoint facts; /* without weights and state */
} manifest;

static uint32_t magic(void) {
    uint32_t magic;
    memcpy(&magic, MODEL_CHECKPOINT_MAGIC, sizeof magic);
    return magic;
}

static void file_name(uint64_t place, char out[DISK_NAME_MAX]) {
    snprintf(out, DISK_NAME_MAX, "model-%" PRIu64 ".safetensors", place);
}

/* ---- Manifest. */

static mr_status write_manifest(disk disk, const manifest *manifest) {
    uint8_t bytes[MANIFEST_MAX];
    const mr_model_checkpoint *facts = &manifest->facts;
    writer writer = writer_of(bytes, sizeof bytes);
    writer_u32(&writer, magic());
    writer_u64(&writer, manifest->place);
    writer_u64(&writer, manifest->size);
    writer_u64(&writer, manifest->sum);
    writer_u64(&writer, facts->version);
    writer_u64(&writer, facts->num_syncs);
    writer_f64(&writer, facts->momentum);
    writer_f64(&writer, facts->trim);
    writer_span32(&writer, span_of(facts->strategy, strlen(facts->strategy)));
    writer_u64(&writer, format_sum(span_of(bytes, writer_size(&writer))));
    return disk_replace(disk, MANIFEST, span_of(bytes, writer_size(&writer)));
}

static void read_facts(reader *reader, mr_model_checkpoint *out) {
    out->version = reader_u64(reader);
    out->num_syncs = reader_u64(reader);
    out->momentum = reader_f64(reader);
    out->trim = reader_f64(reader);
    span name = reader_span32(reader);
    if (name.size >= sizeof out->strategy) reader->failed = true;
    if (!reader->failed) snprintf(out->strategy, sizeof out->strategy, "%.*s", (int)name.size, (const char *)name.data);
}

static mr_status read_manifest(disk disk, manifest *out) {
    uint8_t room[MANIFEST_MAX + 1];
    size_t got;
    manifest made = {0};
    MR_TRY(disk.ops->read(disk.self, MANIFEST, 0, room, sizeof room, &got));
    reader reader = reader_of(room, got);
    uint32_t format = format_of(reader_u32(&reader), magic(), sizeof(uint32_t));
    bool is_sealed = format_is_sealed(span_of(room, got));
    if (is_sealed && format != 0 && format != FORMAT) return format_reject(MANIFEST, format, FORMAT, FORMAT_USE_WRITER);
    made.place = reader_u64(&reader);
    made.size = reader_u64(&reader);
    made.sum = reader_u64(&reader);
    read_facts(&reader, &made.facts);
    (void)reader_u64(&reader); /* the checksum */
    if (!is_sealed || format != FORMAT || reader.failed || made.place > 1)
        return error_set(MR_CORRUPT, "its " MANIFEST " is damaged (%zu bytes): use another checkpoint", got);
    *out = made;
    return MR_OK;
}

bool model_checkpoint_exists(const char *folder) {
    char *path = xasprintf("%s/" MANIFEST, folder);
    bool exists = access(path, F_OK) == 0;
    free(path);
    return exists;
}

/* ---- Tensors and their names. */

static safetensors_dtype saved_dtype(mr_dtype dtype) {
    static const safetensors_dtype types[] = {
        [MR_BOOL] = SAFETENSORS_BOOL, [MR_I8] = SAFETENSORS_I8,     [MR_I16] = SAFETENSORS_I16,
        [MR_I32] = SAFETENSORS_I32,   [MR_I64] = SAFETENSORS_I64,   [MR_U8] = SAFETENSORS_U8,
        [MR_U16] = SAFETENSORS_U16,   [MR_U32] = SAFETENSORS_U32,   [MR_U64] = SAFETENSORS_U64,
        [MR_F16] = SAFETENSORS_F16,   [MR_BF16] = SAFETENSORS_BF16, [MR_F32] = SAFETENSORS_F32,
        [MR_F64] = SAFETENSORS_F64};
    return types[dtype];
}

typedef char leaf_name[SAFETENSORS_NAME_MAX];

typedef struct leaf_names {
    leaf_name *names; /* owned; "": the path is no name */
    size_t count, room;
    leaf_name path;
} leaf_names;

/* Appends a key to the path. False: the key is not a text, or the path has no room for it. */
static bool add_step(leaf_names *leaves, size_t used, const mr_value *key, size_t index) {
    char text[SAFETENSORS_NAME_MAX];
    int64_t number;
    mr_span bytes = {"", 0};
    bool is_text = true;
    if (key == NULL)
        snprintf(text, sizeof text, "%zu", index);
    else if (mr_value_kind(key) == MR_KIND_INT && mr_value_int(key, &number) == MR_OK)
        snprintf(text, sizeof text, "%" PRId64, number);
    else if (mr_value_kind(key) == MR_KIND_STR && mr_value_str(key, &bytes) == MR_OK && bytes.size < sizeof text &&
             memchr(bytes.data, 0, bytes.size) == NULL)
        snprintf(text, sizeof text, "%.*s", (int)bytes.size, (const char *)bytes.data);
    else
        is_text = false;
    int more =
        !is_text ? 0 : snprintf(leaves->path + used, sizeof leaves->path - used, "%s%s", used == 0 ? "" : ".", text);
    return more > 0 && used + (size_t)more < sizeof leaves->path;
}

static mr_status name_leaves(leaf_names *leaves, size_t used, bool is_named, const mr_value *value) {
    mr_kind kind = mr_value_kind(value);
    if (kind == MR_KIND_TENSOR) {
        MR_TRY(alloc_try_grow(&leaves->names, &leaves->room, leaves->count + 1, sizeof *leaves->names));
        bool is_good = is_named && leaves->path[0] != '.' && leaves->path[0] != '_' && used > 0;
        snprintf(leaves->names[leaves->count++], sizeof(leaf_name), "%s", is_good ? leaves->path : "");
        return MR_OK;
    }
    if (kind != MR_KIND_MAP && kind != MR_KIND_LIST && kind != MR_KIND_TUPLE) return MR_OK;
    mr_iter iter = mr_value_iter(value);
    mr_value key, item;
    for (size_t i = 0; kind != MR_KIND_MAP || mr_iter_next(&iter, &key); i++) {
        if (!mr_iter_next(&iter, &item)) break;
        bool fits = is_named && add_step(leaves, used, kind == MR_KIND_MAP ? &key : NULL, i);
        if (!fits) leaves->path[used] = '\0';
        MR_TRY(name_leaves(leaves, strlen(leaves->path), fits, &item));
        leaves->path[used] = '\0';
    }
    return MR_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of all tensors of the tree, in its order; the caller frees them. */
static mr_status names_of(const mr_value *tree, leaf_name **out) {
    leaf_names leaves = {.path = ""};
    mr_status status = name_leaves(&leaves, 0, true, tree);
    char **sorted = NULL;
    if (status == MR_OK) status = alloc_try((leaves.count + 1) * sizeof *sorted, &sorted);
    if (status != MR_OK) {
        free(leaves.names);
        return status;
    }
    for (size_t i = 0; i < leaves.count; i++) sorted[i] = leaves.names[i];
    if (leaves.count > 1) qsort(sorted, leaves.count, sizeof *sorted, compare_names);
    for (size_t i = leaves.count; i-- > 1;) /* of equal names the first stays */
        if (strcmp(sorted[i], sorted[i - 1]) == 0) sorted[i][0] = '\0';
    for (size_t i = 0; i < leaves.count; i++)
        if (leaves.names[i][0] == '\0') snprintf(leaves.names[i], sizeof(leaf_name), ".tensor.%zu", i);
    free(sorted);
    *out = leaves.names;
    return MR_OK;
}

/* ---- Writing. */

typedef struct hashed { /* a file that is written, and its checksum */
    const safetensors *list;
    const byte_sink *to;
    XXH3_state_t *hash;
    uint64_t size;
} hashed;

static mr_status put_hashed(void *context, span bytes) {
    hashed *file = context;
    if (bytes.size > 0) XXH3_64bits_update(file->hash, bytes.data, bytes.size);
    file->size += bytes.size;
    return byte_sink_put(file->to, bytes);
}

static mr_status put_file(void *context, const byte_sink *out) {
    hashed *file = context;
    file->to = out;
    file->size = 0;
    XXH3_64bits_reset(file->hash);
    return safetensors_stream(file->list, &(byte_sink){put_hashed, file});
}

static void add_facts(safetensors *list, const mr_model_checkpoint *facts) {
    char text[40];
    snprintf(text, sizeof text, MODEL_CHECKPOINT_NAME "%d", FORMAT);
    safetensors_say(list, "format", text);
    safetensors_say(list, "strategy", facts->strategy);
    snprintf(text, sizeof text, "%" PRIu64, facts->version);
    safetensors_say(list, "version", text);
    const uint64_t weights = facts->weight_count, state = facts->state.size;
    safetensors_add(list, ".server/weights", SAFETENSORS_F64, &weights, 1, facts->weights);
    safetensors_add(list, ".strategy/state", SAFETENSORS_U8, &state, 1, facts->state.data);
}

/* The tree with the empty tensor {0, index} in place of each tensor, as bytes; the caller frees them. */
static mr_status encode_tree(const mr_value *model, const weight_tree *tensors, uint8_t **out, uint64_t *size) {
    mr_tensor *stand_ins;
    void *memory;
    mr_arg tree;
    value_plan plan;
    MR_TRY(alloc_try((tensors->count + 1) * sizeof *stand_ins, &stand_ins));
    for (size_t i = 0; i < tensors->count; i++)
        stand_ins[i] = (mr_tensor){.dtype = tensors->tensors[i].dtype,
                                   .tensor_kind = tensors->tensors[i].tensor_kind,
                                   .dims = 2,
                                   .shape = {0, (int64_t)i}};
    mr_status status = weight_tree_arg(model, &(weight_tree){.tensors = stand_ins}, NULL, &memory, &tree);
    if (status == MR_OK) {
        status = value_measure(&tree, SIZE_MAX, &plan);
        if (status == MR_OK && (plan.buffer_count > 0 || plan.has_refs))
            status = error_set(MR_INVALID, "cannot save a model with %u large objects that are no tensors",
                               plan.buffer_count);
        if (status == MR_OK) status = alloc_try(plan.value_size, out);
        if (status == MR_OK) value_write_plain(&tree, &plan, *out);
        if (status == MR_OK) *size = plan.value_size;
        free(memory);
    }
    free(stand_ins);
    return status;
}

static mr_status add_model(safetensors *list, const mr_value *model, const weight_tree *tensors, uint8_t **tree) {
    leaf_name *names;
    uint64_t size;
    MR_TRY(encode_tree(model, tensors, tree, &size));
    safetensors_add(list, ".model/tree", SAFETENSORS_U8, &size, 1, *tree);
    MR_TRY(names_of(model, &names));
    for (size_t i = 0; i < tensors->count; i++) {
        const mr_tensor *tensor = &tensors->tensors[i];
        uint64_t shape[MR_TENSOR_DIMS_MAX];
        for (int d = 0; d < tensor->dims; d++) shape[d] = (uint64_t)tensor->shape[d];
        safetensors_add(list, names[i], saved_dtype(tensor->dtype), shape, (uint32_t)tensor->dims, tensor->data);
    }
    free(names);
    return MR_OK;
}

/* The place that the present manifest does not name. */
static uint64_t free_place(disk disk, const char *folder) {
    manifest before;
    if (!model_checkpoint_exists(folder)) return 0;
    if (read_manifest(disk, &before) == MR_OK) return 1 - before.place;
    error_clear();
    return 0;
}

static mr_status write_list(const char *folder, const safetensors *list, const mr_model_checkpoint *facts) {
    disk disk;
    char name[DISK_NAME_MAX];
    hashed file = {.list = list, .hash = XXH3_createState()};
    if (file.hash == NULL) return error_set(MR_NOMEM, "no memory to write the checkpoint %s", folder);
    mr_status status = disk_open(folder, &disk);
    if (status == MR_OK) {
        manifest manifest = {.place = free_place(disk, folder), .facts = *facts};
        file_name(manifest.place, name);
        status = disk_replace_by(disk, name, true, put_file, &file);
        FAILPOINT("train.checkpoint_written");
        manifest.size = file.size;
        manifest.sum = XXH3_64bits_digest(file.hash);
        if (status == MR_OK) status = write_manifest(disk, &manifest);
        disk_close(disk);
    }
    XXH3_freeState(file.hash);
    return status == MR_OK ? MR_OK : error_wrap(status, "cannot write the checkpoint %s", folder);
}

static mr_status check_facts(const char *folder, const mr_model_checkpoint *facts) {
    if (folder == NULL || folder[0] == '\0')
        return error_set(MR_INVALID, "the folder of the checkpoint is %s; pass the path of a folder",
                         folder == NULL ? "NULL" : "\"\"");
    if (memchr(facts->strategy, 0, sizeof facts->strategy) != NULL && facts->strategy[0] != '\0') return MR_OK;
    return error_set(MR_INVALID, "the checkpoint %s needs a strategy of 1 to %d bytes", folder, STRATEGY_MAX - 1);
}

mr_status mr_model_checkpoint_write(const char *folder, const mr_model_checkpoint *facts, const mr_value *model) {
    safetensors list = {0};
    weight_tree tensors = {0};
    uint8_t *tree = NULL;
    mr_status status = MR_OK;
    bool has_model = mr_value_kind(model) != MR_KIND_NIL;
    MR_TRY(check_facts(folder, facts));
    add_facts(&list, facts);
    if (has_model) status = weight_tree_open(&(weight_tree_source){.root = *model}, &tensors);
    if (has_model && status == MR_OK) status = add_model(&list, model, &tensors, &tree);
    if (status == MR_OK) status = write_list(folder, &list, facts);
    free(tree);
    weight_tree_close(&tensors);
    safetensors_fini(&list);
    return status;
}

/* ---- Reading. */

static mr_status damaged(const char *what) {
    return error_set(MR_CORRUPT, "malformed checkpoint of a model: %s is missing or wrong", what);
}

static mr_status read_special(const safetensors *list, const char *name, safetensors_dtype dtype, span *out) {
    const safetensor *found = safetensors_find(list, name);
    if (found == NULL || found->dtype != dtype || found->dims != 1) return damaged(name);
    *out = found->data;
    return MR_OK;
}

static mr_status read_lists(model_checkpoint_file *file) {
    const safetensors *list = &file->list;
    mr_model_checkpoint *facts = &file->facts;
    span weights = {0}, state = {0};
    const char *format = safetensors_text_of(list, "format");
    uint32_t number = format == NULL ? 0 : format_of_text(format, MODEL_CHECKPOINT_NAME);
    if (number != 0 && number != FORMAT) return format_reject("its model", number, FORMAT, FORMAT_USE_WRITER);
    if (number == 0) return damaged("format");
    MR_TRY(read_special(list, ".strategy/state", SAFETENSORS_U8, &state));
    facts->state = (mr_span){state.data, state.size};
    MR_TRY(read_special(list, ".server/weights", SAFETENSORS_F64, &weights));
    MR_TRY(alloc_try(weights.size + 1, &file->weights)); /* aligned */
    if (weights.size > 0) memcpy(file->weights, weights.data, weights.size);
    facts->weights = file->weights;
    facts->weight_count = weights.size / sizeof *file->weights;
    return MR_OK;
}

/* Puts the tensors of the file in place of the stand-ins. */
static mr_status find_tensors(model_checkpoint_file *file, const leaf_name *names, void **places) {
    for (size_t i = 0; i < file->tensors.count; i++) {
        mr_tensor *tensor = &file->tensors.tensors[i];
        const safetensor *found = safetensors_find(&file->list, names[i]);
        if (found == NULL || found->dtype != saved_dtype(tensor->dtype) || found->dims > MR_TENSOR_DIMS_MAX)
            return damaged(names[i]);
        tensor->dims = (int)found->dims;
        for (uint32_t d = 0; d < found->dims; d++) tensor->shape[d] = (int64_t)found->shape[d];
        tensor->data = found->data.data;
        tensor->bytes = found->data.size;
        places[i] = (void *)(uintptr_t)found->data.data;
    }
    return MR_OK;
}

static mr_status read_tree(model_checkpoint_file *file, const mr_value *root) {
    leaf_name *names;
    void **places = NULL;
    MR_TRY(weight_tree_open(&(weight_tree_source){.root = *root}, &file->tensors));
    MR_TRY(names_of(root, &names));
    mr_status status = alloc_try((file->tensors.count + 1) * sizeof *places, &places);
    if (status == MR_OK) status = find_tensors(file, names, places);
    if (status == MR_OK) status = weight_tree_arg(root, &file->tensors, places, &file->arg_memory, &file->model);
    free(places);
    free(names);
    return status;
}

static mr_status read_model(model_checkpoint_file *file) {
    const safetensor *tree = safetensors_find(&file->list, ".model/tree");
    mr_value root;
    if (tree == NULL) return file->facts.version == 0 ? MR_OK : damaged(".model/tree");
    MR_TRY(alloc_try(tree->data.size + 1, &file->tree_memory)); /* aligned */
    memcpy(file->tree_memory, tree->data.data, tree->data.size);
    MR_TRY(alloc_try(sizeof *file->tree, &file->tree));
    mr_status status = value_open_plain(file->tree, span_of(file->tree_memory, tree->data.size), &root);
    if (status == MR_OK) return read_tree(file, &root);
    free(file->tree);
    file->tree = NULL;
    return status;
}

mr_status model_checkpoint_decode(model_checkpoint_file *file) {
    MR_TRY(safetensors_read(span_of(file->file.data, file->file.size), &file->list));
    MR_TRY(read_lists(file));
    return read_model(file);
}

static mr_status read_file(disk disk, model_checkpoint_file *file) {
    manifest manifest;
    char name[DISK_NAME_MAX];
    MR_TRY(read_manifest(disk, &manifest));
    file->facts = manifest.facts;
    file_name(manifest.place, name);
    buffer_init(&file->file, SIZE_MAX / 2);
    MR_TRY(disk_read_all(disk, name, SIZE_MAX / 2, &file->file));
    if (file->file.size != manifest.size || XXH3_64bits(file->file.data, file->file.size) != manifest.sum)
        return error_set(MR_CORRUPT,
                         "%s is damaged (%zu bytes; the manifest names %" PRIu64 " bytes and another "
                         "checksum): use another checkpoint",
                         name, file->file.size, manifest.size);
    return model_checkpoint_decode(file);
}

static mr_status open_folder(const char *folder, disk *out) {
    if (!model_checkpoint_exists(folder))
        return error_set(MR_NOT_FOUND, "there is no checkpoint of a model in %s: it has no " MANIFEST, folder);
    return disk_open(folder, out);
}

static mr_status done(mr_status status, const char *folder) {
    return status == MR_OK ? MR_OK : error_wrap(status, "cannot read the checkpoint %s", folder);
}

mr_status mr_model_checkpoint_peek(const char *folder, mr_model_checkpoint *out) {
    disk disk;
    manifest manifest;
    MR_TRY(open_folder(folder, &disk));
    mr_status status = read_manifest(disk, &manifest);
    disk_close(disk);
    if (status == MR_OK) *out = manifest.facts;
    return done(status, folder);
}

mr_status model_checkpoint_open(const char *folder, model_checkpoint_file *out) {
    model_checkpoint_file file = {.model = mr_nil()};
    disk disk;
    MR_TRY(open_folder(folder, &disk));
    mr_status status = read_file(disk, &file);
    disk_close(disk);
    if (status == MR_OK)
        *out = file;
    else
        model_checkpoint_close(&file);
    return done(status, folder);
}

static mr_status put_both(mr_context *mr, const model_checkpoint_file *file, mr_ref *model, mr_ref *lists) {
    const mr_model_checkpoint *facts = &file->facts;
    const mr_arg both[] = {mr_bytes(facts->weights, facts->weight_count * sizeof *facts->weights),
                           mr_bytes(facts->state.data, facts->state.size)};
    MR_TRY(mr_put(mr, file->model, model));
    mr_status status = mr_put(mr, mr_list(both, 2), lists);
    if (status != MR_OK) mr_release(mr, *model);
    return status;
}

mr_status mr_model_checkpoint_read(mr_context *mr, const char *folder, mr_ref *model, mr_ref *lists) {
    model_checkpoint_file file;
    MR_TRY(model_checkpoint_open(folder, &file));
    mr_status status = put_both(mr, &file, model, lists);
    model_checkpoint_close(&file);
    return status;
}

void model_checkpoint_close(model_checkpoint_file *file) {
    weight_tree_close(&file->tensors);
    if (file->tree != NULL) value_close(file->tree);
    free(file->tree);
    free(file->tree_memory);
    free(file->arg_memory);
    free(file->weights);
    safetensors_fini(&file->list);
    buffer_fini(&file->file);
}

/* ---- Setting aside. */

static mr_status move_into(const char *folder, const char *name, const char *to_folder) {
    char *from = xasprintf("%s/%s", folder, name), *to = xasprintf("%s/%s", to_folder, name);
    mr_status status = access(from, F_OK) != 0 || rename(from, to) == 0
                           ? MR_OK
                           : error_errno("cannot move the checkpoint file %s to %s", from, to);
    free(from);
    free(to);
    return status;
}

/* Creates the folder old-N of the first free number; the caller frees *out. */
static mr_status make_old_folder(const char *folder, char **out) {
    for (unsigned number = 1; number < OLD_MAX; number++) {
        *out = xasprintf("%s/old-%u", folder, number);
        if (mkdir(*out, 0700) == 0) return MR_OK;
        mr_status status = errno == EEXIST ? MR_OK : error_errno("cannot make the folder %s for a checkpoint", *out);
        free(*out);
        MR_TRY(status);
    }
    return error_set(MR_TOO_LARGE, "%s has %d old checkpoints: remove some", folder, OLD_MAX);
}

mr_status mr_model_checkpoint_set_aside(const char *folder) {
    char name[DISK_NAME_MAX], *old;
    if (!model_checkpoint_exists(folder)) return MR_OK;
    MR_TRY(make_old_folder(folder, &old));
    mr_status status = move_into(folder, MANIFEST, old); /* first: what is left in the folder is no checkpoint */
    for (uint64_t place = 0; place <= 1 && status == MR_OK; place++) {
        file_name(place, name);
        status = move_into(folder, name, old);
    }
    free(old);
    return status;
}
