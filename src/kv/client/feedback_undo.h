/* feedback_undo.h — undo log of a step's error feedback: the residuals as they were before each push, for a rank that
 * is left out of the step (mr_ps_skip).
 *
 * Residuals are saved while pushes of a round are encoded. If the rank is left out they are written back, the newest
 * first, so that its next push is encoded as if the step had not been. A key that had no residual gets one of zeros.
 *
 * Ownership   an undo log owns its copies. Threads: none. */
#pragma once
#include "kv/client/feedback_file.h"

typedef struct feedback_undo { /* zero-initialized: empty */
    struct feedback_undo_entry *newest;
} feedback_undo;

/* Saves the residuals of these keys, or of a stretch of an array of `items` items. MR_NOMEM. */
MR_MUST mr_status feedback_undo_keys(feedback_undo *undo, uint32_t table, const error_feedback_keys *keys,
                                     const float *rests);
MR_MUST mr_status feedback_undo_stretch(feedback_undo *undo, uint32_t table, uint32_t array, uint64_t items,
                                        uint64_t first, size_t count, const float *rests);

void feedback_undo_revert(feedback_undo *undo,
                          feedback_file *file); /* writes all of them back; the log is then empty */
void feedback_undo_clear(feedback_undo *undo);
