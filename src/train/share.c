/* share.c — see share.h: the owner's side.
 *
 * Changing over takes no copy: the pages behind two windows are exchanged by moving the windows (mremap), which carries
 * the page tables along: about 0.1 ms for 100 MB. Addresses never become unmapped meanwhile, so that other threads may
 * read all the time: each step leaves a mapping behind (MREMAP_DONTUNMAP, Linux 5.13).
 *
 *     front, back, spare  ──  front → spare, back → front, spare → back
 *
 * Where that is not to be had the new half is copied into the window, which then shows the same half for ever. */
#include "train/share.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "runtime/context.h"

enum { WINDOW = 2 * 1024 * 1024 }; /* windows begin on a multiple: whole tables of pages move then */

typedef struct stretch { /* of the share */
    size_t from, end;
} stretch;

struct mr_share {
    mr_context *mr;
    mr_ref ref;
    mr_value region; /* held, and viewed: it is neither freed nor moved */
    share_place place;
    size_t half;       /* bytes, whole pages */
    uint8_t *reserved; /* owned: three windows and what aligns them */
    size_t reserved_size;
    uint8_t *front, *back, *spare;
    int64_t shown; /* which half the front shows */
    bool stiff;    /* the windows cannot be moved */
    uint32_t ticket;
    stretch *written; /* owned: what the sync writes of it, in order */
    size_t written_count;
};

static size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

bool share_is_marked(const mr_value *value, size_t items) {
    mr_value mark;
    mr_span text;
    return mr_value_kind(value) == MR_KIND_TUPLE && mr_value_count(value) == items &&
           mr_value_item(value, 0, &mark) == MR_OK && mr_value_kind(&mark) == MR_KIND_BYTES &&
           mr_value_bytes(&mark, &text) == MR_OK && text.size == sizeof MR_LOAN_MARK - 1 &&
           memcmp(text.data, MR_LOAN_MARK, text.size) == 0;
}

mr_status share_find(mr_context *mr, const mr_value *region, size_t half, share_place *out) {
    mr_tensor bytes;
    MR_TRY(mr_value_tensor(region, &bytes));
    uint64_t offset;
    context_lock(mr);
    const arena *arena = shelf_locate(&mr->client.shelf, bytes.data, &offset);
    context_unlock(mr);
    if (arena == NULL) return error_set(MR_CLOSED, "the model does not lie in the store");
    size_t skipped = rounded(offset, SHARE_PAGE) - offset;
    if (half == 0 || half % SHARE_PAGE != 0 || half > SIZE_MAX / 4 || bytes.bytes < skipped + SHARE_PAGE + 2 * half)
        return error_set(MR_INVALID, "%zu bytes of shared memory are no model of twice %zu", bytes.bytes, half);
    uint8_t *head = arena_at(arena, offset + skipped);
    *out = (share_place){.head = (void *)head,
                         .halves = {head + SHARE_PAGE, head + SHARE_PAGE + half},
                         .offset = offset + skipped,
                         .fd = arena->fd};
    return MR_OK;
}

/* ---- Life. */

static off_t offset_of(const mr_share *share, int64_t half) {
    return (off_t)(share->place.offset + SHARE_PAGE + (size_t)half * share->half);
}

/* Its pages are found now rather than in the first steps of a training. */
static bool show(const mr_share *share, uint8_t *window, int64_t half) {
    return mmap(window, share->half, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, share->place.fd,
                offset_of(share, half)) != MAP_FAILED;
}

static mr_status open_windows(mr_share *share) {
    size_t each = rounded(share->half, WINDOW);
    share->reserved_size = 3 * each + WINDOW;
    void *reserved = mmap(NULL, share->reserved_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return error_errno("reserving addresses for a shared model");
    share->reserved = reserved;
    share->front = (uint8_t *)rounded((uintptr_t)reserved, WINDOW);
    share->back = share->front + each;
    share->spare = share->back + each;
    if (!show(share, share->front, 0) || !show(share, share->back, 1)) return error_errno("mapping a shared model");
    return MR_OK;
}

static mr_status leave_as_it_is(void *user, void *const *places, size_t count) { return MR_OK; }

static mr_status open_region(mr_share *share) {
    int64_t size = (int64_t)share_region_bytes(share->half);
    mr_arg bytes = mr_tensor_of(MR_U8, NULL, 1, &size);
    MR_TRY(mr_put_filled(share->mr, bytes, leave_as_it_is, NULL, &share->ref));
    mr_status status = mr_get(share->mr, share->ref, -1, &share->region);
    if (status == MR_OK) status = share_find(share->mr, &share->region, share->half, &share->place);
    if (status != MR_OK) return status;
    atomic_store(&share->place.head->word, share_word(0, 0, SHARE_IDLE));
    return open_windows(share);
}

mr_status mr_share_open(mr_context *mr, size_t bytes, mr_share **out) {
    MR_TRY(context_check(mr, out));
    if (bytes == 0) return error_set(MR_INVALID, "there is nothing to share");
    if (bytes > SIZE_MAX / 8) return error_set(MR_TOO_LARGE, "%zu bytes cannot be shared", bytes);
    mr_share *share;
    MR_TRY(alloc_try(sizeof *share, (void **)&share));
    *share = (mr_share){.mr = mr, .half = rounded(bytes, SHARE_PAGE)};
    mr_status status = open_region(share);
    if (status != MR_OK) {
        mr_share_close(share);
        return status;
    }
    *out = share;
    return MR_OK;
}

void mr_share_close(mr_share *share) {
    if (share == NULL) return;
    if (share->reserved != NULL) munmap(share->reserved, share->reserved_size);
    bool is_held = mr_value_kind(&share->region) != MR_KIND_NIL;
    if (is_held && context_is_ours(share->mr)) { /* what is viewed keeps the context, also after its end */
        if (!share->mr->closed) mr_release(share->mr, share->ref);
        mr_value_release(&share->region);
    }
    free(share->written);
    free(share);
}

void *mr_share_data(const mr_share *share) { return share->front; }

/* ---- Lending. */

static int by_place(const void *a, const void *b) {
    size_t one = ((const stretch *)a)->from, two = ((const stretch *)b)->from;
    return (one > two) - (one < two);
}

static mr_status note_written(mr_share *share, const mr_tensor *tensors, size_t count) {
    void *memory = share->written;
    MR_TRY(alloc_try_resize(&memory, (count + 1) * sizeof *share->written));
    share->written = memory;
    for (size_t i = 0; i < count; i++) {
        uintptr_t from = (uintptr_t)tensors[i].data - (uintptr_t)share->front; /* wraps if it lies before */
        if (tensors[i].bytes > 0 && (from >= share->half || tensors[i].bytes > share->half - from))
            return error_set(MR_INVALID, "tensor %zu is not in the share", i);
        share->written[i] = (stretch){from, from + tensors[i].bytes};
        if (tensors[i].bytes == 0) share->written[i] = (stretch){0, 0};
    }
    share->written_count = count;
    qsort(share->written, count, sizeof *share->written, by_place);
    return MR_OK;
}

static bool is_gone(uint32_t pid) { return kill((pid_t)pid, 0) != 0 && errno == ESRCH; }

mr_status mr_share_lend(mr_share *share, const mr_tensor *tensors, size_t count, mr_loan *out) {
    uint64_t seen = atomic_load(&share->place.head->word);
    if ((seen & 0xff) == SHARE_WRITING && !is_gone((uint32_t)(seen >> 8) & 0xffffff))
        return error_set(MR_BUSY, "another sync writes the model just now");
    MR_TRY(note_written(share, tensors, count));
    uint64_t lent = share_word(share->ticket + 1, 0, SHARE_LENT);
    if (!atomic_compare_exchange_strong(&share->place.head->word, &seen, lent))
        return error_set(MR_BUSY, "another sync begins to write the model just now");
    share->ticket++;
    FAILPOINT("train.lent");
    *out =
        (mr_loan){.region = share->ref, .ticket = share->ticket, .half = share->shown, .bytes = (int64_t)share->half};
    return MR_OK;
}

static mr_arg stand_in(const mr_share *share, const mr_tensor *tensor, int64_t *shape) {
    shape[0] = 0;
    shape[1] = tensor->bytes == 0 ? 0 : (int64_t)((const uint8_t *)tensor->data - share->front);
    memcpy(shape + SHARE_STAND_IN_DIMS, tensor->shape, (size_t)tensor->dims * sizeof *shape);
    mr_arg made = mr_tensor_of(tensor->dtype, NULL, tensor->dims + SHARE_STAND_IN_DIMS, shape);
    made.flavour = (uint8_t)tensor->flavour;
    return made;
}

static bool can_be_lent(const mr_tensor *tensors, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (tensors[i].dims > MR_TENSOR_DIMS_MAX - SHARE_STAND_IN_DIMS) return false;
    return true;
}

static mr_status return_loan(mr_call *call, const mr_loan *loan, mr_arg weights) {
    mr_arg items[SHARE_LOAN_ITEMS] = {mr_bytes(MR_LOAN_MARK, sizeof MR_LOAN_MARK - 1),
                                      mr_future(loan->region),
                                      mr_int(loan->ticket),
                                      mr_int(loan->half),
                                      mr_int(loan->bytes),
                                      weights};
    return mr_return(call, mr_tuple(items, SHARE_LOAN_ITEMS));
}

mr_status mr_share_return(mr_call *call, mr_share *share, const mr_tensor *tensors, size_t count) {
    int64_t(*shapes)[MR_TENSOR_DIMS_MAX];
    mr_loan loan;
    void *memory;
    MR_TRY(alloc_try((count + 1) * (sizeof(mr_arg) + sizeof *shapes), &memory));
    mr_arg *args = memory;
    shapes = (void *)(args + count);
    bool lent = can_be_lent(tensors, count) && mr_share_lend(share, tensors, count, &loan) == MR_OK;
    for (size_t i = 0; i < count; i++)
        args[i] = lent ? stand_in(share, &tensors[i], shapes[i]) : mr_tensor_arg(&tensors[i]);
    mr_arg weights = mr_list(args, count);
    mr_status status = lent ? return_loan(call, &loan, weights) : mr_return(call, weights);
    free(memory);
    return status;
}

/* ---- Taking. */

/* What the sync did not write is the same in both halves then. */
static void carry_over(const mr_share *share, uint8_t *other) {
    size_t at = 0;
    for (size_t i = 0; i <= share->written_count; i++) {
        stretch next = i < share->written_count ? share->written[i] : (stretch){share->half, share->half};
        if (next.from > at) memcpy(other + at, share->front + at, next.from - at);
        if (next.end > at) at = next.end;
    }
}

static bool move(uint8_t *from, uint8_t *to, size_t size) {
    if (FAILPOINT_ERROR("train.share_mremap")) return false;
    return mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to;
}

/* Each step that fails leaves the front as a whole, and says what it shows. */
static void change_over(mr_share *share, const uint8_t *other) {
    if (!share->stiff && move(share->front, share->spare, share->half) &&
        move(share->back, share->front, share->half)) {
        share->shown = 1 - share->shown;
        share->stiff = !move(share->spare, share->back, share->half) && !show(share, share->back, 1 - share->shown);
        return;
    }
    share->stiff = true;
    memcpy(share->front, other, share->half);
}

mr_status mr_share_take_back(mr_share *share, int64_t ticket, int64_t place, bool *taken) {
    *taken = false;
    if ((uint64_t)place != share->place.offset) return MR_OK;
    uint64_t seen = atomic_load(&share->place.head->word);
    bool is_ours = ticket == share->ticket && (seen & 0xff) == SHARE_WRITTEN;
    if (!is_ours ||
        !atomic_compare_exchange_strong(&share->place.head->word, &seen, share_word(share->ticket, 0, SHARE_IDLE)))
        return error_set(MR_BUSY, "the shared model was lent to another sync meanwhile");
    FAILPOINT("train.taking");
    uint8_t *other = share->place.halves[1 - share->shown];
    carry_over(share, other);
    change_over(share, other);
    FAILPOINT("train.taken");
    *taken = true;
    return MR_OK;
}

mr_status mr_share_take(mr_share *share, const mr_value *weights, bool *taken) {
    mr_value item;
    int64_t ticket, place;
    *taken = false;
    if (!share_is_marked(weights, SHARE_ANSWER_ITEMS)) return MR_OK;
    MR_TRY(mr_value_item(weights, 1, &item));
    MR_TRY(mr_value_int(&item, &ticket));
    MR_TRY(mr_value_item(weights, 2, &item));
    MR_TRY(mr_value_int(&item, &place));
    return mr_share_take_back(share, ticket, place, taken);
}
