/* push_encoder.h — push encoder: codecs and compressors of a worker, their error feedback, scratch memory and counters.
 *
 * Ownership  a push_encoder owns all of these. Threads: the kv_worker's. */
#pragma once
#include "kv/client/feedback_file.h"
#include "kv/client/feedback_undo.h"
#include "kv/codec/compress.h"

typedef struct push_encoder_traffic { /* the first three are about sections of pushes */
    uint64_t plain_bytes;             /* bytes without codecs */
    uint64_t sent_bytes;              /* bytes sent */
    uint64_t sections, encoded;       /* all sections; those that a codec or compressor changed */
    uint64_t asked_plain_bytes;       /* bytes of query sections, with all their keys */
    uint64_t asked_bytes;             /* bytes of query sections as sent */
    uint64_t forgotten;               /* queries with a key list that the slot no longer had */
} push_encoder_traffic;

typedef struct push_encoder { /* push_encoder_init */
    feedback_file *file;
    feedback_undo undo;                      /* residuals before pushes of this step that may be left out */
    compressor *compressors[COMPRESSOR_IDS]; /* NULL: not opened yet, or not available on this machine */
    bool tried[COMPRESSOR_IDS];
    float *values, *rests, *work; /* `room` floats each, in one allocation that begins at `values` */
    size_t room;
    uint64_t *keys; /* `key_room` keys, followed by as many lengths, in one allocation */
    uint32_t *lengths;
    size_t key_room;
    uint8_t *message;
    size_t message_room;
    push_encoder_traffic traffic;
} push_encoder;

void push_encoder_init(push_encoder *encoder);
void push_encoder_fini(push_encoder *encoder);

/* Reserves memory for a section of `values` values and `keys` keys, and a message of `message` bytes. MR_NOMEM. */
MR_MUST mr_status push_encoder_reserve(push_encoder *encoder, size_t values, size_t keys, size_t message);

compressor *push_encoder_press(push_encoder *encoder, compressor_id id); /* NULL: not available on this machine */
