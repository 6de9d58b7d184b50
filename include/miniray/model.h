/* miniray/model.h — models that were trained apart, made into one.
 *
 * A model is a list of tensors, in any shapes and dtypes, the same for every worker. Floats are aggregated, in one pass
 * over memory and on all cores; integers and bools (counters, masks) are the first worker's. fp16 and bf16 are summed
 * in fp32 and rounded once. Workers count in their order, so the same models give the same bits, whatever the machine,
 * the compiler and the number of cores. A NaN of any worker is a NaN in the result.
 *
 *     const mr_tensor *models[] = {mine, yours};
 *     mr_aggregate(&(mr_strategy){.name = "median"}, models, 2, count, NULL, results);
 */
#pragma once
#include "miniray/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_strategy { /* zeroed: the average */
    const char *name;        /* NULL: "average"; "weighted", "momentum", "median", "trimmed_mean", "max" */
    const double *weights;   /* weighted: one for each worker, none below 0, not all 0; NULL: all the same */
    double momentum;         /* momentum: how much of the old model stays, below 1; 0 means 0.9 */
    double trim;             /* trimmed_mean: the share of the workers left out at each end, below 0.5; 0 means 0.1 */
} mr_strategy;

MR_API const char *mr_strategy_names(void); /* static: "average, weighted, …" */

/* models: one list of `count` tensors for each of the workers. previous: the model before, of momentum; NULL: there is
 * none, and the first one is the average. out: where the tensors of the result go, each as large as the workers'; it
 * may be one of theirs, or the previous one's.
 *
 * MR_INVALID: an unknown strategy or a wrong option, no workers, or tensors that do not match (the text says which of
 * whom). MR_NOMEM. Nothing was written then. */
MR_API MR_MUST mr_status mr_aggregate(const mr_strategy *strategy, const mr_tensor *const *models, size_t workers,
                                      size_t count, const mr_tensor *previous, void *const *out);

#ifdef __cplusplus
}
#endif
