/* loan.c — see loan.h. */
#include "train/loan.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failpoint.h"

enum { PATIENCE_US = 10 * 1000 * 1000 }; /* what was lent is there: nobody has to be waited for */

bool loan_is_one(const mr_value *value) { return share_is_marked(value, SHARE_LOAN_ITEMS); }

static mr_status read_number(const mr_value *value, size_t index, int64_t least, int64_t most, int64_t *out) {
    mr_value item;
    MR_TRY(mr_value_item(value, index, &item));
    MR_TRY(mr_value_int(&item, out));
    if (*out >= least && *out <= most) return MR_OK;
    return error_set(MR_INVALID, "item %zu of a loan is %lld", index, (long long)*out);
}

mr_status loan_open(mr_context *mr, const mr_value *value, loan *out, mr_value *tree) {
    mr_value item;
    mr_ref region;
    int64_t ticket, half, bytes;
    loan made = {0};
    MR_TRY(mr_value_item(value, 1, &item));
    MR_TRY(mr_value_ref(&item, &region));
    MR_TRY(read_number(value, 2, 0, UINT32_MAX, &ticket));
    MR_TRY(read_number(value, 3, 0, 1, &half));
    MR_TRY(read_number(value, 4, 1, INT64_MAX, &bytes));
    MR_TRY(mr_value_item(value, 5, tree));
    MR_TRY(mr_get(mr, region, PATIENCE_US, &made.region));
    mr_status status = share_find(mr, &made.region, (size_t)bytes, &made.place);
    if (status != MR_OK) {
        mr_value_release(&made.region);
        return status;
    }
    made.ticket = (uint32_t)ticket;
    made.half = (size_t)bytes;
    made.from = made.place.halves[half];
    made.to = made.place.halves[1 - half];
    *out = made;
    return MR_OK;
}

void loan_close(loan *loan) {
    if (loan->from != NULL) mr_value_release(&loan->region);
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
    if (!sound) return error_set(MR_INVALID, "a tensor of the loan is not in it");
    memmove(tensor->shape, tensor->shape + SHARE_STAND_IN_DIMS, (size_t)dims * sizeof *tensor->shape);
    tensor->dims = dims;
    tensor->bytes = bytes;
    tensor->data = loan->from + offset;
    return MR_OK;
}

mr_status loan_begin(loan *loan) {
    uint64_t lent = share_word(loan->ticket, 0, SHARE_LENT);
    if (!atomic_compare_exchange_strong(&loan->place.head->word, &lent,
                                        share_word(loan->ticket, (uint32_t)getpid(), SHARE_WRITING)))
        return error_set(MR_BUSY, "the shared model was lent to another sync meanwhile");
    loan->begun = true;
    FAILPOINT("train.loan_begun");
    return MR_OK;
}

void loan_end(loan *loan, bool written) {
    if (!loan->begun) return;
    FAILPOINT("train.loan_ends");
    uint64_t writing = share_word(loan->ticket, (uint32_t)getpid(), SHARE_WRITING);
    uint64_t ended = share_word(loan->ticket, 0, written ? SHARE_WRITTEN : SHARE_IDLE);
    atomic_compare_exchange_strong(&loan->place.head->word, &writing, ended);
    loan->begun = false;
}
