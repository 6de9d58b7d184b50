/* gpus.h — which GPUs of a machine are whose. Pure.
 *
 * The scheduler counts GPUs in thousandths and says who may have how many; here they get numbers. Whole ones are given
 * to one at a time, fractions are packed onto devices that are shared already. What the scheduler lets overlap for a
 * while (a worker that blocks lends what it has) overlaps here too: then the least used device is given. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { GPUS_MAX = 64, GPUS_TEXT_MAX = 192 };

typedef struct gpus {
    uint32_t count;
    int64_t used[GPUS_MAX]; /* thousandths */
} gpus;

typedef struct gpu_share { /* zero: none */
    uint64_t devices;      /* a bit for each */
    int64_t milli;         /* of each of them */
} gpu_share;

void gpus_init(gpus *gpus, int64_t total_milli);
gpu_share gpus_take(gpus *gpus, int64_t milli);
void gpus_give(gpus *gpus, gpu_share share);
void gpu_share_text(gpu_share share, char out[GPUS_TEXT_MAX]); /* "0,3", as CUDA_VISIBLE_DEVICES; "" for none */
