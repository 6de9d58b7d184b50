/* aggregate.c — see aggregate.h.
 *
 * The pieces of all tensors are numbered in order: first_piece[i] is the first piece of tensor i. Members of the thread
 * pool take numbers from one atomic counter until none is left, so a fast member does more pieces. Each member has a
 * slice, which is scratch memory for one stretch; a stretch is folded into the slice and copied from there to all
 * outputs. Results of STREAM_BYTES or more are written past the caches, except to an output that is also an input.
 *
 * Memory   slices and first_piece are one block, allocated before any result is written. Each part of the block begins
 *          on a cache line.
 * Threads  members share only the counters; pieces do not overlap. */
#include "train/aggregate.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/binary_search.h"
#include "base/failpoint.h"
#include "base/simd.h"
#include "train/half_kernels.h"

enum {
    PIECE = 64 * 1024, /* items; large enough that the counter costs little, small enough to balance the load */
    STREAM_BYTES = 4 * 1024 * 1024 /* larger results would only evict other data from the caches */
};

/* Scratch memory of one member for one stretch. */
typedef struct slice {
    const void **rows; /* of the stretch, one for each worker */
    void *folded;      /* the result */
    void *scratch;     /* reduction.h */
    float *wide;       /* for 16-bit tensors: rows, `previous` and result in fp32, each of reduction_step items */
} slice;

typedef struct job {
    const reduction *reduction;
    const aggregate_tensor *tensors;
    uint64_t *first_piece; /* owned: of each tensor, then the number of all pieces */
    size_t count;
    bool streams; /* results are written past the caches */
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

/* The tensor of a piece: the last one whose first piece is not after this piece. Empty tensors have no pieces. */
static size_t tensor_of(const job *job, size_t piece) {
    uint64_t next = piece + 1;
    return binary_search_first(&next, job->first_piece, job->count, sizeof next, binary_search_u64) - 1;
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

/* An average without momentum reads the 16-bit rows directly; other reductions widen the rows to fp32 first. */
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

/* An output that is also an input is in the caches. A separate output is not, and is not read soon: it is streamed. */
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

/* Items of the longest stretch that begins at `from` and ends at the end of a cache line of the first output. */
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

static size_t whole_lines(size_t size) { return (size + 63) & ~(size_t)63; }

/* Allocates the block of first_piece, slices and scratch memory. */
static mr_status open_block(job *job, size_t members) {
    size_t step = reduction_step(job->reduction), workers = job->reduction->workers;
    size_t rows = whole_lines(workers * sizeof(void *)), folded = whole_lines(step * sizeof(double));
    size_t scratch = whole_lines(reduction_scratch(job->reduction) * sizeof(double));
    size_t each = rows + folded + scratch + whole_lines((workers + 2) * step * sizeof(float));
    size_t numbers = whole_lines((job->count + 1) * sizeof *job->first_piece);
    size_t slices = whole_lines(members * sizeof *job->slices);
    MR_TRY(alloc_try_aligned(64, numbers + slices + members * each, &job->first_piece));
    job->slices = (void *)((char *)job->first_piece + numbers);
    char *at = (char *)job->slices + slices;
    for (size_t i = 0; i < members; i++, at += each)
        job->slices[i] = (slice){(void *)at, at + rows, at + rows + folded, (void *)(at + rows + folded + scratch)};
    return MR_OK;
}

mr_status aggregate(const reduction *reduction, const aggregate_tensor *tensors, size_t count, thread_pool *pool) {
    job job = {.reduction = reduction, .tensors = tensors, .count = count};
    size_t pieces = 0, bytes = 0;
    MR_TRY(open_block(&job, thread_pool_size(pool)));
    for (size_t i = 0; i < count; i++) {
        job.first_piece[i] = pieces;
        pieces += pieces_of(&tensors[i]);
        bytes += tensors[i].count * mr_dtype_size(tensors[i].dtype);
    }
    job.first_piece[count] = pieces;
    job.streams = bytes >= STREAM_BYTES;
    thread_pool_run(pieces > 1 ? pool : NULL, do_pieces, &job);
    free(job.first_piece);
    return MR_OK;
}
