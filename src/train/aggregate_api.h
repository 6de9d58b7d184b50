/* aggregate_api.h — mr_aggregate for models whose result goes to several places. */
#pragma once
#include "miniray/model.h"

/* As mr_aggregate, with `each` ≥ 1 places of every tensor: those of the first one, then those of the second, … */
MR_MUST mr_status model_aggregate(const mr_sync_strategy *strategy, const mr_tensor *const *models, size_t workers,
                                  size_t count, const mr_tensor *previous, void *const *out, size_t each);
