/* push_encoder.c — see push_encoder.h. */
#include "kv/client/push_encoder.h"

#include <stdlib.h>

#include "base/alloc.h"

void push_encoder_init(push_encoder *encoder) { *encoder = (struct push_encoder){.file = feedback_file_create(0)}; }

void push_encoder_fini(push_encoder *encoder) {
    feedback_file_destroy(encoder->file);
    feedback_undo_clear(&encoder->undo);
    for (size_t i = 0; i < COMPRESSOR_IDS; i++)
        if (encoder->compressors[i] != NULL) compressor_close(encoder->compressors[i]);
    free(encoder->values);
    free(encoder->keys);
    free(encoder->message);
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

mr_status push_encoder_reserve(push_encoder *encoder, size_t values, size_t keys, size_t message) {
    MR_TRY(grow((void **)&encoder->values, &encoder->room, values, 3 * sizeof(float)));
    MR_TRY(grow((void **)&encoder->keys, &encoder->key_room, keys, sizeof(uint64_t) + sizeof(uint32_t)));
    MR_TRY(grow((void **)&encoder->message, &encoder->message_room, message, 1));
    encoder->rests = encoder->values + encoder->room;
    encoder->work = encoder->rests + encoder->room;
    encoder->lengths = (uint32_t *)(encoder->keys + encoder->key_room);
    return MR_OK;
}

compressor *push_encoder_press(push_encoder *encoder, compressor_id id) {
    if (!encoder->tried[id] && compressor_open(id, &encoder->compressors[id]) != MR_OK) encoder->compressors[id] = NULL;
    encoder->tried[id] = true;
    return encoder->compressors[id];
}
