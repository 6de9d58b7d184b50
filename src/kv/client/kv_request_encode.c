/* kv_request_encode.c — see kv_request_internal.h: pushes through the codec of their table.
 *
 * Each section is encoded on its own: the values of its keys, or of its stretch, plus their residuals. If the codec
 * would not make a section smaller its values are sent plain, without loss. A section that the slot has applied in an
 * earlier term is encoded nevertheless: its loss is added to the next. */
#include "kv/client/kv_request_internal.h"
#include "kv/codec/residual.h"
#include "miniray/ps.h"
#include "net/dtype_convert.h"
#include "ps/stable_hash.h"

enum { PRESS_LEAST = 256 }; /* bytes; smaller sections are not compressed */

_Static_assert((int)MR_PS_ARRAYS_MAX <= (int)ERROR_FEEDBACK_ARRAYS_MAX, "every array of a table has feedback");

bool kv_request_is_coded(const kv_request *request) { return !request->set && table_info_is_lossy(request->table); }

bool kv_request_may_undo(const kv_request *request) {
    return request->skip_nonfinite && table_info_in_rounds(request->table);
}

/* The codec for a section of `items` values. */
static codec codec_of(const kv_request *request, size_t items) {
    const codec *wanted = &request->table->table.schema.codec, none = {.id = CODEC_NONE};
    return codec_bound(wanted, items) < codec_bound(&none, items) ? *wanted : none;
}

size_t kv_request_value_bytes(const kv_request *request, size_t items) {
    if (!kv_request_is_coded(request)) return items * mr_dtype_size(kv_request_pushed(request));
    codec codec = codec_of(request, items);
    return codec_bound(&codec, items);
}

void kv_request_write(const kv_request *request, const void *from, size_t count, void *to) {
    dtype_convert(request->dtype, from, kv_request_pushed(request), count, to);
}

/* Random seed: differs by rank, step and section; equal in a replay. */
static uint64_t draw_of(const kv_request_builder *builder, const kv_request_section *section) {
    const kv_worker *worker = builder->worker;
    return stable_hash2(stable_hash2(kv_worker_rank(worker), kv_worker_step(worker)),
                        stable_hash2(section->slot, section->place));
}

mr_status kv_request_add_coded(kv_request_builder *builder, const kv_request_section *section, payload_room *out) {
    const kv_request *request = builder->request;
    push_encoder *encoder = &builder->worker->encoder;
    codec codec = codec_of(request, section->items);
    size_t bound = codec_bound(&codec, section->items), size;
    builder->flags = PAYLOAD_CODED;
    MR_TRY(kv_request_add(builder, section->slot, section->op, section->count, bound, out));
    bool there = out->values == NULL;
    MR_TRY(residual_encode(&codec, draw_of(builder, section), section->values, section->rests, encoder->work,
                           section->items, there ? encoder->message : out->values, bound, &size));
    if (!there) payload_trim(&builder->batch->payload, bound - size);
    return MR_OK;
}

mr_status kv_request_seal(kv_request_builder *builder, size_t plain) {
    push_encoder *encoder = &builder->worker->encoder;
    compressor_id id = builder->request->table->table.schema.press;
    payload_writer *payload = &builder->batch->payload;
    if (id != COMPRESSOR_STORED && payload->size - payload->last >= PRESS_LEAST) {
        compressor *compressor = push_encoder_press(encoder, id);
        size_t before = payload->size;
        if (compressor != NULL) MR_TRY(payload_press(payload, compressor));
        encoder->traffic.encoded += payload->size < before && builder->flags == 0;
    }
    encoder->traffic.encoded += builder->flags != 0;
    encoder->traffic.sections++;
    encoder->traffic.plain_bytes += plain;
    encoder->traffic.sent_bytes += payload->size - payload->last;
    return MR_OK;
}
