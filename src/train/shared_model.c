/* shared_model.c — see shared_model.h: functions of the owner.
 *
 * The owner switches to the other half without a copy: the pages of two windows are exchanged by moving the windows
 * with their page tables (mremap), which takes about 0.1 ms for 100 MB. The addresses stay mapped at all times, because
 * each step leaves a mapping behind (MREMAP_DONTUNMAP, Linux 5.13), so that other threads may read meanwhile.
 *
 *     front, back, spare  ──  front → spare, back → front, spare → back
 *
 * On older kernels the new half is copied into the front window, which then always shows the same half.
 * Tested by tests/shared_model_test.c. */
#include "train/shared_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/pidfd.h"
#include "runtime/process/context.h"
#include "train/model_layout.h"

enum { WINDOW = 2 * 1024 * 1024 }; /* alignment of windows, so that mremap moves whole page tables */

struct mr_shared_model {
    store_region region; /* owned */
    shared_model_place place;
    size_t half;       /* bytes, whole pages */
    uint8_t *reserved; /* owned: addresses of three aligned windows */
    size_t reserved_size;
    uint8_t *front, *back, *spare;
    int64_t shown; /* number of the half in the front window */
    bool stiff;    /* the windows cannot be moved: results are copied */
    uint32_t ticket;
    model_layout layout;                  /* of the export with that ticket: the ranges that the sync writes */
    mr_arg loan[SHARED_MODEL_LOAN_ITEMS]; /* items of the last exported value */
};

static size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

bool shared_model_is_marked(const mr_value *value, size_t items) {
    mr_value mark;
    mr_span text;
    return mr_value_kind(value) == MR_KIND_TUPLE && mr_value_count(value) == items &&
           mr_value_item(value, 0, &mark) == MR_OK && mr_value_kind(&mark) == MR_KIND_BYTES &&
           mr_value_bytes(&mark, &text) == MR_OK && text.size == sizeof MR_SHARED_MODEL_MARK - 1 &&
           memcmp(text.data, MR_SHARED_MODEL_MARK, text.size) == 0;
}

mr_arg shared_model_loan(const store_region_name *name, uint32_t ticket, int64_t half, size_t bytes, mr_arg weights,
                         mr_arg items[SHARED_MODEL_LOAN_ITEMS]) {
    const mr_arg all[] = {mr_bytes(MR_SHARED_MODEL_MARK, sizeof MR_SHARED_MODEL_MARK - 1),
                          mr_bytes(name, sizeof *name),
                          mr_int(ticket),
                          mr_int(half),
                          mr_int((int64_t)bytes),
                          weights};
    _Static_assert(sizeof all == SHARED_MODEL_LOAN_ITEMS * sizeof *items, "all of it");
    memcpy(items, all, sizeof all);
    return mr_tuple(items, SHARED_MODEL_LOAN_ITEMS);
}

/* ---- Open and close. */

static off_t offset_of(const mr_shared_model *share, int64_t half) {
    return (off_t)(share->region.place.offset + SHARED_MODEL_PAGE + (size_t)half * share->half);
}

/* Maps a half into a window. MAP_POPULATE avoids page faults in the first steps of a training. */
static bool show(const mr_shared_model *share, uint8_t *window, int64_t half) {
    return mmap(window, share->half, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                share->region.place.fd, offset_of(share, half)) != MAP_FAILED;
}

static mr_status open_windows(mr_shared_model *share) {
    size_t each = rounded(share->half, WINDOW);
    share->reserved_size = 3 * each + WINDOW;
    void *reserved = mmap(NULL, share->reserved_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return error_errno("cannot reserve %zu bytes of addresses", share->reserved_size);
    share->reserved = reserved;
    share->front = (uint8_t *)rounded((uintptr_t)reserved, WINDOW);
    share->back = share->front + each;
    share->spare = share->back + each;
    if (!show(share, share->front, 0) || !show(share, share->back, 1))
        return error_errno("cannot map %zu bytes", share->half);
    return MR_OK;
}

static mr_status open_region(mr_shared_model *share, mr_context *mr) {
    MR_TRY(store_region_open(mr, shared_model_region_bytes(share->half), &share->region));
    share->place = shared_model_place_of(&share->region.place, share->half);
    atomic_store(&share->place.head->word, shared_model_word(0, 0, SHARED_MODEL_IDLE));
    return open_windows(share);
}

mr_status mr_shared_model_open(mr_context *mr, size_t bytes, mr_shared_model **out) {
    MR_TRY(context_check(mr, out));
    if (bytes == 0) return error_set(MR_INVALID, "a shared model of 0 bytes: the minimum is 1");
    if (bytes > SIZE_MAX / 8) return error_set(MR_TOO_LARGE, "a shared model of %zu bytes: the limit is 2^61", bytes);
    mr_shared_model *share;
    MR_TRY(alloc_try(sizeof *share, &share));
    *share = (mr_shared_model){.half = rounded(bytes, SHARED_MODEL_PAGE)};
    mr_status status = open_region(share, mr);
    if (status != MR_OK) {
        mr_shared_model_close(share);
        return status;
    }
    *out = share;
    return MR_OK;
}

void mr_shared_model_close(mr_shared_model *share) {
    if (share == NULL) return;
    if (share->reserved != NULL) munmap(share->reserved, share->reserved_size);
    store_region_close(&share->region);
    model_layout_fini(&share->layout);
    free(share);
}

void *mr_shared_model_data(const mr_shared_model *share) { return share->front; }

/* ---- Export. */

bool shared_model_writer_is_gone(uint64_t word) { return pidfd_process_ended((int)(word >> 8 & 0xffffff)); }

/* An error leaves an earlier export valid. */
static mr_status lend(mr_shared_model *share, const mr_arg *weights) {
    uint64_t seen = atomic_load(&share->place.head->word);
    if (shared_model_state_of(seen) == SHARED_MODEL_WRITING && !shared_model_writer_is_gone(seen))
        return error_set(MR_BUSY, "cannot share the model again: sync %u still writes it", share->ticket);
    model_layout made = {0};
    MR_TRY(model_layout_draw(&made, share->front, share->half, weights));
    uint64_t exported = shared_model_word(share->ticket + 1, 0, SHARED_MODEL_EXPORTED);
    if (!atomic_compare_exchange_strong(&share->place.head->word, &seen, exported)) {
        model_layout_fini(&made);
        return error_set(MR_BUSY, "cannot share the model again: sync %u has just begun to write it", share->ticket);
    }
    model_layout_fini(&share->layout);
    share->layout = made;
    share->ticket++;
    FAILPOINT("train.lent");
    return MR_OK;
}

mr_status mr_shared_model_export(mr_shared_model *share, mr_arg weights, mr_arg *out) {
    if (share == NULL || out == NULL) return error_set(MR_INVALID, "mr_shared_model_export: share or out is NULL");
    MR_TRY(lend(share, &weights));
    *out = shared_model_loan(&share->region.name, share->ticket, share->shown, share->half, share->layout.weights,
                             share->loan);
    mr_yield_cpu(share->region.mr);
    return MR_OK;
}

mr_status mr_shared_model_return(mr_call *call, mr_shared_model *share, const mr_tensor *tensors, size_t count) {
    mr_arg *args, loan;
    MR_TRY(alloc_try((count + 1) * sizeof *args, &args));
    for (size_t i = 0; i < count; i++) args[i] = mr_tensor_arg(&tensors[i]);
    mr_arg weights = mr_list(args, count);
    mr_status status = mr_return(call, mr_shared_model_export(share, weights, &loan) == MR_OK ? loan : weights);
    free(args);
    return status;
}

/* ---- Import. */

/* Copies the bytes that the sync did not write to the other half, so that both halves have them. */
static void carry_over(const mr_shared_model *share, uint8_t *other) {
    size_t at = 0;
    for (size_t i = 0; i <= share->layout.count; i++) {
        model_layout_stretch next =
            i < share->layout.count ? share->layout.stretches[i] : (model_layout_stretch){share->half, share->half};
        if (next.from > at) memcpy(other + at, share->front + at, next.from - at);
        if (next.end > at) at = next.end;
    }
}

static bool move(uint8_t *from, uint8_t *to, size_t size) {
    if (FAILPOINT_ERROR("train.share_mremap")) return false;
    return mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to;
}

/* Makes the front window show the other half. If a step fails, the front window stays mapped and `shown` is right. */
static void change_over(mr_shared_model *share, const uint8_t *other) {
    if (!share->stiff && move(share->front, share->spare, share->half) &&
        move(share->back, share->front, share->half)) {
        share->shown = 1 - share->shown;
        share->stiff = !move(share->spare, share->back, share->half) && !show(share, share->back, 1 - share->shown);
        return;
    }
    share->stiff = true;
    memcpy(share->front, other, share->half);
}

mr_status mr_shared_model_import(mr_shared_model *share, int64_t ticket, int64_t place, bool *taken) {
    *taken = false;
    if ((uint64_t)place != share->region.place.offset) return MR_OK;
    uint64_t seen = atomic_load(&share->place.head->word);
    bool is_ours = ticket == share->ticket && shared_model_state_of(seen) == SHARED_MODEL_WRITTEN;
    if (!is_ours || !atomic_compare_exchange_strong(&share->place.head->word, &seen,
                                                    shared_model_word(share->ticket, 0, SHARED_MODEL_IDLE)))
        return error_set(MR_BUSY, "the shared model is not the result of sync %lld (now %u)", (long long)ticket,
                         share->ticket);
    FAILPOINT("train.taking");
    uint8_t *other = share->place.halves[1 - share->shown];
    carry_over(share, other);
    change_over(share, other);
    FAILPOINT("train.taken");
    mr_yield_cpu(share->region.mr);
    *taken = true;
    return MR_OK;
}

mr_status mr_shared_model_apply(mr_shared_model *share, const mr_value *weights, bool *taken) {
    mr_value item;
    int64_t ticket, place;
    *taken = false;
    if (!shared_model_is_marked(weights, SHARED_MODEL_ANSWER_ITEMS)) return MR_OK;
    MR_TRY(mr_value_item(weights, 1, &item));
    MR_TRY(mr_value_int(&item, &ticket));
    MR_TRY(mr_value_item(weights, 2, &item));
    MR_TRY(mr_value_int(&item, &place));
    return mr_shared_model_import(share, ticket, place, taken);
}
