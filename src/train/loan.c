/* loan.c — see loan.h. */
#include "train/loan.h"

#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/failpoint.h"

bool loan_is_one(const mr_value *value) { return share_is_marked(value, SHARE_LOAN_ITEMS); }

static mr_status read_number(const mr_value *value, size_t index, int64_t least, int64_t most, int64_t *out) {
    mr_value item;
    MR_TRY(mr_value_item(value, index, &item));
    MR_TRY(mr_value_int(&item, out));
    if (*out >= least && *out <= most) return MR_OK;
    return error_set(MR_INVALID, "malformed shared model: item %zu is %lld", index, (long long)*out);
}

static mr_status read_name(const mr_value *value, region_name *out) {
    mr_value item;
    mr_span bytes;
    MR_TRY(mr_value_item(value, 1, &item));
    MR_TRY(mr_value_bytes(&item, &bytes));
    if (bytes.size != sizeof *out) return error_set(MR_INVALID, "malformed shared model: id of %zu bytes", bytes.size);
    memcpy(out, bytes.data, sizeof *out);
    return MR_OK;
}

mr_status loan_open(mr_context *mr, const mr_value *value, loan *out, mr_value *tree) {
    region_name name;
    int64_t ticket, half, bytes;
    loan made = {.mr = mr};
    MR_TRY(read_name(value, &name));
    MR_TRY(read_number(value, 2, 0, UINT32_MAX, &ticket));
    MR_TRY(read_number(value, 3, 0, SHARE_ON_TRAY, &half));
    MR_TRY(read_number(value, 4, 1, INT64_MAX / 4, &bytes));
    MR_TRY(mr_value_item(value, 5, tree));
    bool on_tray = half == SHARE_ON_TRAY;
    made.half = (size_t)bytes;
    region_place region;
    mr_status status = region_hold(mr, &name, on_tray ? share_tray_bytes(made.half) : share_region_bytes(made.half),
                                   &made.region, &region);
    if (status == MR_OBJECT_LOST)
        return error_set(MR_ACTOR_DIED, "the model of %zu bytes died with its process", made.half);
    MR_TRY(status);
    made.ticket = (uint32_t)ticket;
    made.place = share_place_of(&region, made.half);
    made.offset = region.offset;
    made.from = made.place.halves[on_tray ? 0 : half];
    made.to = on_tray ? NULL : made.place.halves[1 - half];
    *out = made;
    return MR_OK;
}

static bool is_on_tray(const loan *loan) { return loan->from != NULL && loan->to == NULL; }

static void give_back(const loan *loan) {
    uint64_t lent = share_word(loan->ticket, 0, SHARE_LENT);
    atomic_compare_exchange_strong(&loan->place.head->word, &lent, share_word(loan->ticket, 0, SHARE_READ));
}

void loan_close(loan *loan) {
    if (is_on_tray(loan)) give_back(loan);
    if (loan->region != NULL) region_let_go(loan->mr, loan->region);
    *loan = (struct loan){0};
}

mr_status loan_resolve(const loan *loan, mr_tensor *tensor) {
    size_t item = mr_dtype_size(tensor->dtype), bytes = item;
    int dims = tensor->dims - SHARE_STAND_IN_DIMS;
    bool sound = item > 0 && dims >= 0 && tensor->shape[0] == 0 && tensor->shape[1] >= 0;
    int64_t offset = sound ? tensor->shape[1] : 0;
    for (int i = 0; sound && i < dims; i++) {
        int64_t length = tensor->shape[i + SHARE_STAND_IN_DIMS];
        sound = length >= 0 && !__builtin_mul_overflow(bytes, (size_t)length, &bytes);
    }
    sound = sound && (size_t)offset % item == 0 && (size_t)offset <= loan->half && bytes <= loan->half - (size_t)offset;
    if (!sound) return error_set(MR_INVALID, "malformed shared model: a tensor outside its %zu bytes", loan->half);
    memmove(tensor->shape, tensor->shape + SHARE_STAND_IN_DIMS, (size_t)dims * sizeof *tensor->shape);
    tensor->dims = dims;
    tensor->bytes = bytes;
    tensor->data = loan->from + offset;
    return MR_OK;
}

static mr_status check_tray(const loan *loan) {
    uint64_t seen = atomic_load(&loan->place.head->word);
    bool is_there = share_state_of(seen) == SHARE_LENT || share_state_of(seen) == SHARE_READ;
    if (is_there && share_ticket(seen) == loan->ticket) return MR_OK;
    return error_set(MR_BUSY, "the model copy %u was given to another sync meanwhile", loan->ticket);
}

static bool may_be_written(const loan *loan, uint64_t seen) {
    share_state state = share_state_of(seen);
    if (share_ticket(seen) != loan->ticket) return false;
    return state == SHARE_LENT || state == SHARE_WRITTEN || (state == SHARE_WRITING && share_writer_is_gone(seen));
}

mr_status loan_begin(loan *loan) {
    if (is_on_tray(loan)) return check_tray(loan);
    uint64_t seen = atomic_load(&loan->place.head->word);
    uint64_t writing = share_word(loan->ticket, (uint32_t)getpid(), SHARE_WRITING);
    if (!may_be_written(loan, seen) || !atomic_compare_exchange_strong(&loan->place.head->word, &seen, writing))
        return error_set(MR_BUSY, "the shared model %u was given to another sync meanwhile", loan->ticket);
    loan->begun = true;
    FAILPOINT("train.loan_begun");
    return MR_OK;
}

mr_status loan_check(const loan *loan) {
    if (!is_on_tray(loan)) return MR_OK; /* nobody else writes it */
    cpu_fence();
    return check_tray(loan);
}

void loan_end(loan *loan, bool written) {
    if (!loan->begun) return;
    FAILPOINT("train.loan_ends");
    uint64_t writing = share_word(loan->ticket, (uint32_t)getpid(), SHARE_WRITING);
    uint64_t ended = share_word(loan->ticket, 0, written ? SHARE_WRITTEN : SHARE_IDLE);
    atomic_compare_exchange_strong(&loan->place.head->word, &writing, ended);
    loan->begun = false;
}
