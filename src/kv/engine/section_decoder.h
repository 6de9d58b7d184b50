/* section_decoder.h — section decoder: decompresses, decodes and widens the sections of a payload and completes their
 * keys.
 *
 * Values in the needed form are used in place; others are converted into memory of the decoder, which is reused for the
 * next section.
 *
 * A replica that cannot decode a section that the other replicas can decode would differ from them. So a server without
 * the memory or the compression library ends with a message (section_decoder_must): that is a fault like any other, and
 * its replicas take over. */
#pragma once
#include "kv/payload/remote_values.h"

typedef struct section_decoder {             /* zeroed: ready */
    compressor *compressors[COMPRESSOR_IDS]; /* owned; NULL: not opened yet */
    const remote_values_map_view *map_view;  /* borrowed; NULL: no imports */
    payload_section unfolded;
    void *body, *values, *keys; /* owned */
    size_t body_room, values_room, keys_room;
} section_decoder;

void section_decoder_fini(section_decoder *decoder);

/* Returns if the status is MR_OK; else ends the process with a message. */
void section_decoder_must(mr_status status);

/* Of a compressed section the decompressed one; of a run its keys; other sections unchanged. NULL: malformed. Valid
 * until the next call. */
const payload_section *section_decoder_unfold_any(section_decoder *decoder, const payload_section *section);
static inline const payload_section *section_decoder_unfold(section_decoder *decoder, const payload_section *section) {
    return (section->flags & (PAYLOAD_PRESSED | PAYLOAD_RUN)) == 0 ? section
                                                                   : section_decoder_unfold_any(decoder, section);
}

/* The values of a push: `items` numbers, fp32 or, of counters, int64; valid until the next call. NULL: the count
 * differs, the bytes are no message of a codec, or the dtype is not `dtype`, the table's. */
const void *section_decoder_values(section_decoder *decoder, const payload_section *section, mr_dtype dtype,
                                   size_t items);

void section_decoder_widen(mr_dtype dtype, const void *from, size_t count, float *to); /* from MR_F16 or MR_BF16 */

/* Values for each key of a push, of a section that has keys and is not empty; 0: no whole number. */
size_t section_decoder_dim(const payload_section *section);
