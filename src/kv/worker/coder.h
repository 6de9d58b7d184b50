/* coder.h — push encoder: codecs and compressors of a worker, their error feedback, scratch memory and counters.
 *
 * Ownership   it owns all of it. Threads: the customer's. */
#pragma once
#include "kv/codec/press.h"
#include "kv/worker/memoir.h"

typedef struct coder_traffic {  /* sections of pushes first, in bytes */
    uint64_t plain_bytes;       /* as they would be without codecs */
    uint64_t sent_bytes;        /* as they are */
    uint64_t sections, encoded; /* all; those that went through a codec or a compressor */
    uint64_t asked_plain_bytes; /* sections that ask, as they would be with all their keys */
    uint64_t asked_bytes;       /* as they are */
    uint64_t forgotten;         /* queries with keys that the slot had forgotten */
} coder_traffic;

typedef struct coder { /* coder_init */
    memoir *memoir;
    press *presses[PRESS_IDS]; /* NULL: not opened, or not on this machine */
    bool tried[PRESS_IDS];
    float *values, *rests, *work; /* `room` each, in one block that is `values` */
    size_t room;
    uint64_t *keys; /* `key_room`, and as many lengths behind them */
    uint32_t *lengths;
    size_t key_room;
    uint8_t *message;
    size_t message_room;
    coder_traffic traffic;
} coder;

void coder_init(coder *coder);
void coder_fini(coder *coder);

/* Memory for a section of so many values, keys and bytes of a message. MR_NOMEM. */
MR_MUST mr_status coder_reserve(coder *coder, size_t values, size_t keys, size_t message);

press *coder_press(coder *coder, press_id id); /* NULL: this machine does not have it */
