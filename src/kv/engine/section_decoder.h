/* section_decoder.h — section decoder: decompresses, decodes and widens the sections of a payload and completes their
 * keys.
 *
 * Values that need no conversion are used in place; others are converted into the decoder's memory, which the next
 * section reuses.
 *
 * A replica that cannot decode a section that the other replicas can decode would differ from them. So a server without
 * the memory or the compression library ends with a message (section_decoder_must), and its replicas take over. */
#pragma once
#include "kv/payload/remote_values.h"

typedef struct section_decoder {             /* zero-initialized: ready for use */
    compressor *compressors[COMPRESSOR_IDS]; /* owned; NULL: not opened yet */
    const remote_values_map_view *map_view;  /* borrowed; NULL: no imports */
    payload_section unfolded;
    void *body, *values, *keys; /* owned */
    size_t body_room, values_room, keys_room;
} section_decoder;

void section_decoder_fini(section_decoder *decoder);

/* Ends the process with a message unless the status is MR_OK. */
void section_decoder_must(mr_status status);

/* Whether a section is not compressed, or its library is available. */
bool section_decoder_opens(section_decoder *decoder, const payload_section *section);

/* Decompresses a compressed section, and lists the keys of a run; other sections are returned unchanged. NULL:
 * malformed. Valid until the next call. */
const payload_section *section_decoder_unfold_any(section_decoder *decoder, const payload_section *section);
static inline const payload_section *section_decoder_unfold(section_decoder *decoder, const payload_section *section) {
    return (section->flags & (PAYLOAD_PRESSED | PAYLOAD_RUN)) == 0 ? section
                                                                   : section_decoder_unfold_any(decoder, section);
}

/* Values of a push: `items` numbers, fp32, or int64 for counters; valid until the next call. NULL: another number of
 * values, a malformed codec message, or a dtype that does not fit the table's, `dtype` (dtype_convert.h). */
const void *section_decoder_values(section_decoder *decoder, const payload_section *section, mr_dtype dtype,
                                   size_t items);

/* Number of values per key of a push with keys; 0: not a whole number. The section is not empty. */
size_t section_decoder_dim(const payload_section *section);
