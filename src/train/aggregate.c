#include "train/aggregate.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "base/simd.h"
#include "train/half_kernels.h"

enum {
    PIECE = 64 * 1024, /* items: large enough that taking one costs nothing, small enough to share out evenly */
    STREAM_BYTES = 4 * 1024 * 1024 /* a result that is larger would only push other things out of the caches */
};

/* What one member works on: room for a stretch. */
typedef struct slice {
    const void **rows; /* of the stretch, one for each worker */
    void *folded;      /* the result */
    void *scratch;     /* reduction.h */
    float *wide;       /* of 16-bit tensors: the rows, `previous` and the result, widened; a step each */
} slice;

typedef struct job {
    const reduction *reduction;
    const aggregate_tensor *tensors;
    const size_t *first_piece; /* of each tensor, and behind the last one the number of all */
    size_t count;
    bool streams; /* the results go past the caches */
    slice *slices;
    _Atomic size_t next_piece, next_slice;
} job;

static bool is_real(mr_dtype dtype) { return dtype == MR_F32 || dtype == MR_F64; }
static bool is_half(mr_dtype dtype) { return dtype == MR_F16 || dtype == MR_BF16; }

static bool is_input(const job *job, const aggregate_tensor *tensor, const void *output) {
    for (size_t w = 0; w < job->reduction->workers; w++)
        if (tensor->rows[w] == output) return true;
    return output == tensor->previous;
}

static size_t pieces_of(const aggregate_tensor *tensor) { return (tensor->count + PIECE - 1) / PIECE; }

/* The tensor that the piece belongs to: the last one whose first piece is not behind it. Empty ones have none. */
static size_t tensor_of(const job *job, size_t piece) {
    size_t low = 0, high = job->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (job->first_piece[middle] <= piece)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void fold_reals(const reduction *reduction, const aggregate_tensor *tensor, size_t from, size_t count,
                       slice *slice) {
    size_t size = mr_dtype_size(tensor->dtype);
    for (size_t w = 0; w < reduction->workers; w++) slice->rows[w] = (const char *)tensor->rows[w] + from * size;
    const void *previous = reduction->moves ? (const char *)tensor->previous + from * size : NULL;
    if (tensor->dtype == MR_F32)
        fold_f32(reduction, (const float *const *)slice->rows, previous, slice->folded, count, slice->scratch);
    else
        fold_f64(reduction, (const double *const *)slice->rows, previous, slice->folded, count, slice->scratch);
}

/* The common case reads the rows as they are; others widen them first. */
static void fold_halves(const reduction *reduction, const aggregate_tensor *tensor, size_t from, size_t count,
                        slice *slice) {
    bool averages = reduction->kind == REDUCTION_AVERAGE && !reduction->moves;
    size_t step = reduction_step(reduction);
    for (size_t w = 0; w < reduction->workers; w++) {
        const uint16_t *row = (const uint16_t *)tensor->rows[w] + from;
        slice->rows[w] = averages ? (const void *)row : slice->wide + w * step;
        if (!averages) half_widen(tensor->dtype, row, slice->wide + w * step, count);
    }
    if (averages) {
        half_average(tensor->dtype, (const uint16_t *const *)slice->rows, reduction->workers, slice->folded, count);
        return;
    }
    float *previous = slice->wide + reduction->workers * step, *folded = previous + step;
    if (reduction->moves) half_widen(tensor->dtype, (const uint16_t *)tensor->previous + from, previous, count);
    fold_f32(reduction, (const float *const *)slice->rows, previous, folded, count, slice->scratch);
    half_narrow(tensor->dtype, folded, slice->folded, count);
}

/* An output that is an input was just read: its lines are cached. A separate output is not, and is not read soon. */
static void hand_out(const job *job, const aggregate_tensor *tensor, size_t at, const void *result, size_t size) {
    for (size_t o = 0; o < tensor->output_count; o++) {
        char *output = (char *)tensor->outputs[o] + at;
        if (output == result) continue;
        if (job->streams && !is_input(job, tensor, tensor->outputs[o]))
            simd_stream(output, result, size);
        else
            memcpy(output, result, size);
    }
}

/* The longest stretch that begins at this item and ends where a line of the first output does. */
static size_t stretch_at(const aggregate_tensor *tensor, size_t from, size_t step) {
    size_t size = mr_dtype_size(tensor->dtype);
    size_t ahead = ((uintptr_t)tensor->outputs[0] + from * size) % SIMD_LINE / size;
    return ahead < step ? step - ahead : step;
}

static void do_piece(const job *job, size_t piece, slice *slice) {
    FAILPOINT("train.piece");
    size_t index = tensor_of(job, piece);
    const aggregate_tensor *tensor = &job->tensors[index];
    size_t size = mr_dtype_size(tensor->dtype), count;
    size_t from = (piece - job->first_piece[index]) * PIECE;
    size_t end = tensor->count - from < PIECE ? tensor->count : from + PIECE;
    bool folds = is_real(tensor->dtype) || is_half(tensor->dtype);
    for (; from < end; from += count) {
        size_t step = folds ? stretch_at(tensor, from, reduction_step(job->reduction)) : end - from;
        count = end - from < step ? end - from : step;
        const void *result = slice->folded;
        if (is_real(tensor->dtype))
            fold_reals(job->reduction, tensor, from, count, slice);
        else if (folds)
            fold_halves(job->reduction, tensor, from, count, slice);
        else
            result = (const char *)tensor->rows[0] + from * size;
        hand_out(job, tensor, from * size, result, count * size);
    }
}

static void do_pieces(void *argument) {
    job *job = argument;
    slice *slice = &job->slices[atomic_fetch_add(&job->next_slice, 1)];
    size_t all = job->first_piece[job->count];
    for (size_t piece; (piece = atomic_fetch_add(&job->next_piece, 1)) < all;) do_piece(job, piece, slice);
    if (job->streams) simd_stream_end();
}

/* All that the members and the pieces' numbers need, in one block. */
typedef struct block {
    char *memory;
    size_t used;
} block;

static void *cut(block *block, size_t size) {
    void *part = block->memory == NULL ? NULL : block->memory + block->used;
    block->used += (size + 63) & ~(size_t)63;
    return part;
}

/* Twice: without memory it only counts how much it takes. */
static void lay_out(block *block, job *job, size_t **first_piece, size_t members) {
    size_t workers = job->reduction->workers, step = reduction_step(job->reduction);
    *first_piece = cut(block, (job->count + 1) * sizeof **first_piece);
    job->slices = cut(block, members * sizeof *job->slices);
    for (size_t i = 0; i < members; i++) {
        slice slice = {.rows = cut(block, workers * sizeof *slice.rows),
                       .folded = cut(block, step * sizeof(double)),
                       .scratch = cut(block, reduction_scratch(job->reduction) * sizeof(double)),
                       .wide = cut(block, (workers + 2) * step * sizeof *slice.wide)};
        if (block->memory != NULL) job->slices[i] = slice;
    }
}

mr_status aggregate(const reduction *reduction, const aggregate_tensor *tensors, size_t count, thread_pool *pool) {
    job job = {.reduction = reduction, .tensors = tensors, .count = count};
    block block = {0};
    size_t *first_piece, pieces = 0, bytes = 0;
    lay_out(&block, &job, &first_piece, thread_pool_size(pool));
    MR_TRY(alloc_try_aligned(64, block.used, (void **)&block.memory));
    block.used = 0;
    lay_out(&block, &job, &first_piece, thread_pool_size(pool));
    for (size_t i = 0; i < count; i++) {
        first_piece[i] = pieces;
        pieces += pieces_of(&tensors[i]);
        bytes += tensors[i].count * mr_dtype_size(tensors[i].dtype);
    }
    first_piece[count] = pieces;
    job.first_piece = first_piece;
    job.streams = bytes >= STREAM_BYTES;
    thread_pool_run(pieces > 1 ? pool : NULL, do_pieces, &job);
    free(block.memory);
    return MR_OK;
}
