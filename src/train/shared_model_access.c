/* shared_model_access.c — see shared_model_access.h. */
#include "train/shared_model_access.h"

#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/failpoint.h"

static mr_status read_number(const mr_value *value, size_t index, int64_t least, int64_t most, int64_t *out) {
    mr_value item;
    MR_TRY(mr_value_item(value, index, &item));
    MR_TRY(mr_value_int(&item, out));
    if (*out >= least && *out <= most) return MR_OK;
    return error_set(MR_INVALID, "malformed shared model: item %zu is %lld", index, (long long)*out);
}

static mr_status read_name(const mr_value *value, store_region_name *out) {
    mr_value item;
    mr_span bytes;
    MR_TRY(mr_value_item(value, 1, &item));
    MR_TRY(mr_value_bytes(&item, &bytes));
    if (bytes.size != sizeof *out) return error_set(MR_INVALID, "malformed shared model: id of %zu bytes", bytes.size);
    memcpy(out, bytes.data, sizeof *out);
    return MR_OK;
}

mr_status model_access_open(mr_context *mr, const mr_value *value, model_access *out, mr_value *tree) {
    store_region_name name;
    int64_t ticket, half, bytes;
    model_access made = {.mr = mr};
    MR_TRY(read_name(value, &name));
    MR_TRY(read_number(value, 2, 0, UINT32_MAX, &ticket));
    MR_TRY(read_number(value, 3, 0, SHARED_MODEL_IS_COPY, &half));
    MR_TRY(read_number(value, 4, 1, INT64_MAX / 4, &bytes));
    MR_TRY(mr_value_item(value, 5, tree));
    bool on_copy = half == SHARED_MODEL_IS_COPY;
    made.half = (size_t)bytes;
    store_region_place region;
    mr_status status = store_region_hold(
        mr, &name, on_copy ? shared_model_copy_bytes(made.half) : shared_model_region_bytes(made.half), &made.region,
        &region);
    if (status == MR_OBJECT_LOST)
        return error_set(MR_ACTOR_DIED, "the model of %zu bytes died with its process", made.half);
    MR_TRY(status);
    made.ticket = (uint32_t)ticket;
    made.place = shared_model_place_of(&region, made.half);
    made.offset = region.offset;
    made.from = made.place.halves[on_copy ? 0 : half];
    made.to = on_copy ? NULL : made.place.halves[1 - half];
    *out = made;
    return MR_OK;
}

static bool is_on_copy(const model_access *access) { return access->from != NULL && access->to == NULL; }

static void give_back(const model_access *access) {
    uint64_t exported = shared_model_word(access->ticket, 0, SHARED_MODEL_EXPORTED);
    atomic_compare_exchange_strong(&access->place.head->word, &exported,
                                   shared_model_word(access->ticket, 0, SHARED_MODEL_READ));
}

void model_access_close(model_access *access) {
    if (is_on_copy(access)) give_back(access);
    if (access->region != NULL) store_region_let_go(access->mr, access->region);
    *access = (struct model_access){0};
}

mr_status model_access_resolve(const model_access *access, mr_tensor *tensor) {
    size_t item = mr_dtype_size(tensor->dtype), bytes = item;
    int dims = tensor->dims - SHARED_MODEL_STAND_IN_DIMS;
    bool sound = item > 0 && dims >= 0 && tensor->shape[0] == 0 && tensor->shape[1] >= 0;
    int64_t offset = sound ? tensor->shape[1] : 0;
    for (int i = 0; sound && i < dims; i++) {
        int64_t length = tensor->shape[i + SHARED_MODEL_STAND_IN_DIMS];
        sound = length >= 0 && !__builtin_mul_overflow(bytes, (size_t)length, &bytes);
    }
    sound =
        sound && (size_t)offset % item == 0 && (size_t)offset <= access->half && bytes <= access->half - (size_t)offset;
    if (!sound) return error_set(MR_INVALID, "malformed shared model: a tensor outside its %zu bytes", access->half);
    memmove(tensor->shape, tensor->shape + SHARED_MODEL_STAND_IN_DIMS, (size_t)dims * sizeof *tensor->shape);
    tensor->dims = dims;
    tensor->bytes = bytes;
    tensor->data = access->from + offset;
    return MR_OK;
}

static mr_status check_copy(const model_access *access) {
    uint64_t seen = atomic_load(&access->place.head->word);
    bool is_there =
        shared_model_state_of(seen) == SHARED_MODEL_EXPORTED || shared_model_state_of(seen) == SHARED_MODEL_READ;
    if (is_there && shared_model_ticket(seen) == access->ticket) return MR_OK;
    return error_set(MR_BUSY, "the model copy %u was given to another sync meanwhile", access->ticket);
}

static bool may_be_written(const model_access *access, uint64_t seen) {
    shared_model_state state = shared_model_state_of(seen);
    if (shared_model_ticket(seen) != access->ticket) return false;
    return state == SHARED_MODEL_EXPORTED || state == SHARED_MODEL_WRITTEN ||
           (state == SHARED_MODEL_WRITING && shared_model_writer_is_gone(seen));
}

mr_status model_access_begin(model_access *access) {
    if (is_on_copy(access)) return check_copy(access);
    uint64_t seen = atomic_load(&access->place.head->word);
    uint64_t writing = shared_model_word(access->ticket, (uint32_t)getpid(), SHARED_MODEL_WRITING);
    if (!may_be_written(access, seen) || !atomic_compare_exchange_strong(&access->place.head->word, &seen, writing))
        return error_set(MR_BUSY, "the shared model %u was given to another sync meanwhile", access->ticket);
    access->begun = true;
    FAILPOINT("train.loan_begun");
    return MR_OK;
}

mr_status model_access_check(const model_access *access) {
    if (!is_on_copy(access)) return MR_OK; /* while it is WRITING, no other process writes the half */
    cpu_fence();
    return check_copy(access);
}

void model_access_end(model_access *access, bool written) {
    if (!access->begun) return;
    FAILPOINT("train.loan_ends");
    uint64_t writing = shared_model_word(access->ticket, (uint32_t)getpid(), SHARED_MODEL_WRITING);
    uint64_t ended = shared_model_word(access->ticket, 0, written ? SHARED_MODEL_WRITTEN : SHARED_MODEL_IDLE);
    atomic_compare_exchange_strong(&access->place.head->word, &writing, ended);
    access->begun = false;
}
