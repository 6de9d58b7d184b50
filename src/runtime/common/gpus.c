/* gpus.c — see gpus.h. */
#include "runtime/common/gpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

/* The next item of a CUDA_VISIBLE_DEVICES list, without spaces; false: none. As in CUDA, the first invalid item ends
 * the list. */
static bool next_shown(const char **at, char out[GPUS_NAME_MAX]) {
    *at += strspn(*at, " ");
    size_t size = strcspn(*at, ", ");
    if (size == 0 || size >= GPUS_NAME_MAX) return false;
    snprintf(out, GPUS_NAME_MAX, "%.*s", (int)size, *at);
    if (strcmp(out, "-1") == 0 || strcmp(out, "NoDevFiles") == 0) return false;
    *at += size + strspn(*at + size, " ");
    *at += **at == ',';
    return true;
}

uint32_t gpus_shown(const char *shown) {
    char name[GPUS_NAME_MAX];
    uint32_t count = shown == NULL ? GPUS_MAX : 0;
    while (shown != NULL && count < GPUS_MAX && next_shown(&shown, name)) count++;
    return count;
}

void gpus_init(gpus *gpus, int64_t total_milli, const char *shown) {
    int64_t count = (total_milli + 999) / 1000, most = gpus_shown(shown);
    memset(gpus, 0, sizeof *gpus);
    gpus->count = (uint32_t)(count > most ? most : count);
    for (uint32_t i = 0; i < gpus->count; i++)
        if (shown == NULL || !next_shown(&shown, gpus->names[i])) snprintf(gpus->names[i], GPUS_NAME_MAX, "%u", i);
}

/* The least used device that is not in `taken`; gpus->count: none. */
static uint32_t least_used(const gpus *gpus, uint64_t taken) {
    uint32_t best = gpus->count;
    for (uint32_t i = 0; i < gpus->count; i++)
        if ((taken >> i & 1) == 0 && (best == gpus->count || gpus->used[i] < gpus->used[best])) best = i;
    return best;
}

/* The fullest device that has room for a fraction; else the least used one. */
static uint32_t tightest(const gpus *gpus, int64_t milli) {
    uint32_t best = gpus->count;
    for (uint32_t i = 0; i < gpus->count; i++)
        if (gpus->used[i] + milli <= 1000 && (best == gpus->count || gpus->used[i] > gpus->used[best])) best = i;
    return best < gpus->count ? best : least_used(gpus, 0);
}

gpu_share gpus_take(gpus *gpus, int64_t milli) {
    gpu_share share = {.milli = milli < 1000 ? milli : 1000};
    if (milli <= 0 || gpus->count == 0) return (gpu_share){0};
    if (milli < 1000) {
        share.devices = UINT64_C(1) << tightest(gpus, milli);
    } else {
        for (int64_t left = (milli + 999) / 1000; left > 0; left--) {
            uint32_t device = least_used(gpus, share.devices);
            if (device == gpus->count) break;
            share.devices |= UINT64_C(1) << device;
        }
    }
    for (uint32_t i = 0; i < gpus->count; i++)
        if (share.devices >> i & 1) gpus->used[i] += share.milli;
    return share;
}

void gpus_give(gpus *gpus, gpu_share share) {
    for (uint32_t i = 0; i < gpus->count; i++) {
        if ((share.devices >> i & 1) == 0) continue;
        gpus->used[i] -= share.milli;
        MR_ASSERT(gpus->used[i] >= 0);
    }
}

void gpus_text(const gpus *gpus, gpu_share share, char out[GPUS_TEXT_MAX]) {
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < gpus->count; i++)
        if (share.devices >> i & 1)
            used += (size_t)snprintf(out + used, GPUS_TEXT_MAX - used, "%s%s", used == 0 ? "" : ",", gpus->names[i]);
}
