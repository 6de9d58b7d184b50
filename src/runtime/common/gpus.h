/* gpus.h — assignment of a machine's GPUs to workers. Pure.
 *
 * The scheduler counts GPUs in thousandths and decides how many a worker has; this module assigns device numbers. A
 * whole GPU belongs to one worker at a time; fractions are packed onto devices that are shared already. Assignments
 * that the scheduler lets overlap for a while (a blocked worker releases its resources) overlap here, too: then the
 * least used device is assigned.
 *
 * A node with CUDA_VISIBLE_DEVICES in its own environment has those devices only, by that list's numbers or names. */
#pragma once
#include <stdint.h>

enum { GPUS_MAX = 64, GPUS_NAME_MAX = 48, GPUS_TEXT_MAX = GPUS_MAX * GPUS_NAME_MAX };

typedef struct gpus {
    uint32_t count;
    int64_t used[GPUS_MAX]; /* thousandths of each device */
    char names[GPUS_MAX][GPUS_NAME_MAX];
} gpus;

typedef struct gpu_share { /* zero: none */
    uint64_t devices;      /* a bit for each device */
    int64_t milli;         /* thousandths of each of these devices */
} gpu_share;

/* `shown` as in CUDA_VISIBLE_DEVICES; NULL: all devices. */
uint32_t gpus_shown(const char *shown); /* number of listed devices; GPUS_MAX for NULL */
void gpus_init(gpus *gpus, int64_t total_milli, const char *shown);
gpu_share gpus_take(gpus *gpus, int64_t milli);
void gpus_give(gpus *gpus, gpu_share share);
void gpus_text(const gpus *gpus, gpu_share share, char out[GPUS_TEXT_MAX]); /* as CUDA_VISIBLE_DEVICES; "" for none */
