/* aggregate_api.h — mr_aggregate with several outputs for each tensor. */
#pragma once
#include "miniray/model.h"

/* As mr_aggregate, with `each` ≥ 1 outputs for every tensor: those of the first tensor, then of the second, … */
MR_MUST mr_status model_aggregate(const mr_sync_strategy *strategy, const mr_tensor *const *models, size_t workers,
                                  size_t count, const mr_tensor *previous, void *const *out, size_t each);
