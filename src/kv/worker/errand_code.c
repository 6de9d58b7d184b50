/* errand_code.c — see errand_core.h: pushes through the codec of their table.
 *
 * Each section is a message of its own: the values of its keys, or of its stretch, with what was lost of them before.
 * Where a codec would make it no smaller they go as they are, and nothing is lost. A section that the slot has already,
 * from an earlier stint, is made all the same: what it loses is added to the next. */
#include <string.h>

#include "kv/codec/residual.h"
#include "kv/shelf/opener.h"
#include "kv/worker/errand_core.h"
#include "miniray/ps.h"
#include "ps/mix.h"

enum { PRESS_LEAST = 256 }; /* bytes of a section that are worth compressing */

_Static_assert((int)MR_PS_ARRAYS_MAX <= (int)FEEDBACK_ARRAYS_MAX, "every array of a table has feedback");

bool errand_is_coded(const errand *errand) { return !errand->set && sheet_is_lossy(errand->sheet); }

/* The codec of a section of so many values. */
static codec codec_of(const errand *errand, size_t items) {
    const codec *wanted = &errand->sheet->table.definition.codec, none = {.id = CODEC_NONE};
    return codec_bound(wanted, items) < codec_bound(&none, items) ? *wanted : none;
}

size_t errand_value_bytes(const errand *errand, size_t items) {
    if (!errand_is_coded(errand)) return items * errand->sheet->item;
    codec codec = codec_of(errand, items);
    return codec_bound(&codec, items);
}

void errand_floats(const errand *errand, const void *from, size_t count, float *to) {
    mr_dtype dtype = errand->sheet->table.definition.dtype;
    if (count == 0) return;
    if (dtype == MR_F32)
        memcpy(to, from, count * sizeof *to);
    else
        opener_widen(dtype, from, count, to);
}

/* What is drawn: something else in each step, by each rank, for each section; the same when it is played again. */
static uint64_t draw_of(const trip *trip, const errand_section *section) {
    const customer *customer = trip->customer;
    return mix2(mix2(customer_rank(customer), customer_step(customer)), mix2(section->slot, section->place));
}

mr_status errand_add_coded(trip *trip, const errand_section *section, parcel_room *out) {
    const errand *errand = trip->errand;
    coder *coder = &trip->customer->coder;
    codec codec = codec_of(errand, section->items);
    size_t bound = codec_bound(&codec, section->items), size;
    trip->flags = PARCEL_CODED;
    MR_TRY(errand_add(trip, section->slot, section->op, section->count, bound, out));
    bool there = out->values == NULL;
    MR_TRY(residual_encode(&codec, draw_of(trip, section), section->values, section->rests, coder->work, section->items,
                           there ? coder->message : out->values, bound, &size));
    if (!there) parcel_trim(&trip->batch->parcel, bound - size);
    return MR_OK;
}

mr_status errand_seal(trip *trip, size_t plain) {
    coder *coder = &trip->customer->coder;
    press_id id = trip->errand->sheet->table.definition.press;
    parcel_writer *parcel = &trip->batch->parcel;
    if (id != PRESS_STORED && parcel->size - parcel->last >= PRESS_LEAST) {
        press *press = coder_press(coder, id);
        size_t before = parcel->size;
        if (press != NULL) MR_TRY(parcel_press(parcel, press));
        coder->traffic.encoded += parcel->size < before && trip->flags == 0;
    }
    coder->traffic.encoded += trip->flags != 0;
    coder->traffic.sections++;
    coder->traffic.plain_bytes += plain;
    coder->traffic.sent_bytes += parcel->size - parcel->last;
    return MR_OK;
}
