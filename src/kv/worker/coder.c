/* coder.c — see coder.h. */
#include "kv/worker/coder.h"

#include <stdlib.h>

#include "base/alloc.h"

void coder_init(coder *coder) { *coder = (struct coder){.memoir = memoir_create(0)}; }

void coder_fini(coder *coder) {
    memoir_destroy(coder->memoir);
    for (size_t i = 0; i < PRESS_IDS; i++)
        if (coder->presses[i] != NULL) press_close(coder->presses[i]);
    free(coder->values);
    free(coder->keys);
    free(coder->message);
}

static mr_status grow(void **memory, size_t *room, size_t need, size_t size) {
    if (need <= *room) return MR_OK;
    void *larger;
    MR_TRY(alloc_try_aligned(64, (need + 1) * size, &larger));
    free(*memory);
    *memory = larger;
    *room = need;
    return MR_OK;
}

mr_status coder_reserve(coder *coder, size_t values, size_t keys, size_t message) {
    MR_TRY(grow((void **)&coder->values, &coder->room, values, 3 * sizeof(float)));
    MR_TRY(grow((void **)&coder->keys, &coder->key_room, keys, sizeof(uint64_t) + sizeof(uint32_t)));
    MR_TRY(grow((void **)&coder->message, &coder->message_room, message, 1));
    coder->rests = coder->values + coder->room;
    coder->work = coder->rests + coder->room;
    coder->lengths = (uint32_t *)(coder->keys + coder->key_room);
    return MR_OK;
}

press *coder_press(coder *coder, press_id id) {
    if (!coder->tried[id] && press_open(id, &coder->presses[id]) != MR_OK) coder->presses[id] = NULL;
    coder->tried[id] = true;
    return coder->presses[id];
}
