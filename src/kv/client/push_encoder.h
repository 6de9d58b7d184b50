/* push_encoder.h — push encoder: codecs and compressors of a worker, their error feedback, scratch memory and counters.
 *
 * Ownership  it owns all of it. Threads: the kv_worker's. */
#pragma once
#include "kv/client/feedback_file.h"
#include "kv/codec/compress.h"

typedef struct push_encoder_traffic { /* sections of pushes first, in bytes */
    uint64_t plain_bytes;             /* size without codecs */
    uint64_t sent_bytes;              /* size sent */
    uint64_t sections, encoded;       /* all; those that went through a codec or a compressor */
    uint64_t asked_plain_bytes;       /* sections of queries, with all their keys */
    uint64_t asked_bytes;             /* size sent */
    uint64_t forgotten;               /* queries with keys that the slot had forgotten */
} push_encoder_traffic;

typedef struct push_encoder { /* push_encoder_init */
    feedback_file *file;
    compressor *compressors[COMPRESSOR_IDS]; /* NULL: not opened, or not on this machine */
    bool tried[COMPRESSOR_IDS];
    float *values, *rests, *work; /* `room` each, in one block that is `values` */
    size_t room;
    uint64_t *keys; /* `key_room`, and as many lengths behind them */
    uint32_t *lengths;
    size_t key_room;
    uint8_t *message;
    size_t message_room;
    push_encoder_traffic traffic;
} push_encoder;

void push_encoder_init(push_encoder *encoder);
void push_encoder_fini(push_encoder *encoder);

/* Memory for a section of so many values, keys and bytes of a message. MR_NOMEM. */
MR_MUST mr_status push_encoder_reserve(push_encoder *encoder, size_t values, size_t keys, size_t message);

compressor *push_encoder_press(push_encoder *encoder, compressor_id id); /* NULL: not on this machine */
