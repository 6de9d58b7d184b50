/* section_decoder.c — see section_decoder.h. */
#include "kv/engine/section_decoder.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/codec/codec.h"
#include "net/dtype_convert.h"

void section_decoder_fini(section_decoder *decoder) {
    for (size_t i = 0; i < COMPRESSOR_IDS; i++)
        if (decoder->compressors[i] != NULL) compressor_close(decoder->compressors[i]);
    free(decoder->body);
    free(decoder->values);
    free(decoder->keys);
    *decoder = (struct section_decoder){0};
}

void section_decoder_must(mr_status status) {
    if (status == MR_OK) return;
    fprintf(stderr, "miniray: this server cannot apply a push and ends; the other replicas go on: %s\n",
            mr_last_error());
    abort();
}

static void *room(void *memory, size_t *room, size_t size) {
    section_decoder_must(alloc_try_grow((void **)memory, room, size, 1));
    return *(void **)memory;
}

static mr_status open_compressor(section_decoder *decoder, compressor_id id) {
    return decoder->compressors[id] != NULL ? MR_OK : compressor_open(id, &decoder->compressors[id]);
}

bool section_decoder_opens(section_decoder *decoder, const payload_section *section) {
    if ((section->flags & PAYLOAD_PRESSED) == 0 || section->body.size == 0) return true;
    return section->body.data[0] < COMPRESSOR_IDS && open_compressor(decoder, section->body.data[0]) == MR_OK;
}

static const payload_section *unpress(section_decoder *decoder, const payload_section *section) {
    payload_section *out = &decoder->unfolded;
    size_t size;
    if ((section->flags & PAYLOAD_PRESSED) == 0) return section;
    if (compressor_size(section->body, PAYLOAD_BYTES_MAX, &size) != MR_OK) return NULL;
    compressor_id id = section->body.data[0];
    section_decoder_must(open_compressor(decoder, id));
    void *body = room(&decoder->body, &decoder->body_room, size + PAYLOAD_ALIGN);
    mr_status status = compressor_unpack(decoder->compressors[id], section->body, body, size);
    /* other replicas may have the memory: skipping the section would make this replica differ */
    if (status == MR_NOMEM) section_decoder_must(status);
    bool good = status == MR_OK && payload_unfold(section, span_of(body, size), out) && payload_ascends(out);
    return good ? out : NULL;
}

static const payload_section *list_keys(section_decoder *decoder, const payload_section *section) {
    if (section == NULL || (section->flags & PAYLOAD_RUN) == 0) return section;
    uint64_t *keys = room(&decoder->keys, &decoder->keys_room, section->count * sizeof *keys);
    for (uint32_t i = 0; i < section->count; i++) keys[i] = section->first + i;
    decoder->unfolded = *section;
    decoder->unfolded.flags &= (uint8_t)~PAYLOAD_RUN;
    decoder->unfolded.keys = keys;
    return &decoder->unfolded;
}

const payload_section *section_decoder_unfold_any(section_decoder *decoder, const payload_section *section) {
    return list_keys(decoder, unpress(decoder, section));
}

const void *section_decoder_values(section_decoder *decoder, const payload_section *section, mr_dtype dtype,
                                   size_t items) {
    bool coded = (section->flags & PAYLOAD_CODED) != 0;
    if (!dtype_convert_fits(section->dtype, dtype)) return NULL;
    if (items > PAYLOAD_BYTES_MAX / sizeof(float)) return NULL;
    if ((section->flags & PAYLOAD_AFAR) != 0)
        return remote_values_values(decoder->map_view, section, items * mr_dtype_size(section->dtype));
    if (!coded && section->values.size != items * mr_dtype_size(section->dtype)) return NULL;
    if (!coded && (section->dtype == MR_F32 || section->dtype == MR_I64)) return section->values.data;
    if (section->dtype == MR_I64) return NULL;
    float *values = room(&decoder->values, &decoder->values_room, items * sizeof *values + 1);
    if (coded) return codec_decode(section->values, values, items) == MR_OK ? values : NULL;
    dtype_convert(section->dtype, section->values.data, MR_F32, items, values);
    return values;
}

size_t section_decoder_dim(const payload_section *section) {
    size_t items = section->values.size / mr_dtype_size(section->dtype);
    if ((section->flags & PAYLOAD_CODED) != 0) {
        uint32_t count = 0;
        if (section->values.size < CODEC_HEAD) return 0;
        memcpy(&count, section->values.data + 4, sizeof count);
        items = count;
    }
    return section->count == 0 || items % section->count != 0 ? 0 : items / section->count;
}
