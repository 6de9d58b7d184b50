/* remote_values.c — see remote_values.h. */
#include "kv/payload/remote_values.h"

#include "base/error.h"

static bool is_afar(const payload_section *section) {
    return (section->flags & PAYLOAD_AFAR) != 0 && payload_is_push(section->op);
}

static size_t bytes_of(const payload_section *section) { return section->count * mr_dtype_size(section->dtype); }

const void *remote_values_values(const remote_values_map_view *map_view, const payload_section *section, size_t bytes) {
    const shm_import *import = map_view == NULL ? NULL : map_view->see(map_view->context, section->afar.process);
    return import == NULL ? NULL : shm_import_at(import, section->afar.offset, bytes);
}

bool remote_values_speaks(span payload) {
    span bytes;
    payload_scratch scratch;
    bool speaks = false;
    if (payload_align(payload, &scratch, &bytes) != MR_OK) return true; /* a later check reports it */
    payload_reader reader = payload_open(bytes);
    for (payload_section section; !speaks && payload_next(&reader, &section);) speaks = is_afar(&section);
    payload_clear(&scratch);
    return speaks;
}

/* Counts the references. False: one of them is not readable. */
static bool look(const remote_values_map_view *map_view, span payload, size_t *count) {
    payload_reader reader = payload_open(payload);
    *count = 0;
    for (payload_section section; payload_next(&reader, &section);) {
        if (!is_afar(&section)) continue;
        if (remote_values_values(map_view, &section, bytes_of(&section)) == NULL) return false;
        ++*count;
    }
    return true;
}

bool remote_values_is_there(const remote_values_map_view *map_view, span payload) {
    span bytes;
    payload_scratch scratch;
    size_t count;
    if (payload_align(payload, &scratch, &bytes) != MR_OK) return false;
    bool there = look(map_view, bytes, &count);
    payload_clear(&scratch);
    return there;
}

/* Adds the section, with its remote values copied into it. */
static mr_status add(const remote_values_map_view *map_view, const payload_section *section, payload_writer *out) {
    payload_head head = {section->table, section->op, section->flags, section->dtype, section->count};
    payload_room room;
    if (!is_afar(section)) return payload_copy(out, section);
    head.flags &= (uint8_t)~PAYLOAD_AFAR;
    const void *values = remote_values_values(map_view, section, bytes_of(section));
    if (values == NULL) return MR_NOT_FOUND;
    MR_TRY(payload_add(out, head, bytes_of(section), &room));
    *room.place = section->place;
    memcpy(room.values, values, bytes_of(section));
    return MR_OK;
}

mr_status remote_values_fetch(const remote_values_map_view *map_view, span payload, shared_bytes **out) {
    payload_writer writer = {0};
    span bytes;
    payload_scratch scratch;
    size_t count;
    MR_TRY(payload_align(payload, &scratch, &bytes));
    mr_status status = look(map_view, bytes, &count)
                           ? MR_OK
                           : error_set(MR_NOT_FOUND, "the worker's memory cannot be read (%zu bytes)", payload.size);
    payload_reader reader = payload_open(bytes);
    for (payload_section section; status == MR_OK && count != 0 && payload_next(&reader, &section);)
        status = add(map_view, &section, &writer);
    payload_clear(&scratch);
    if (status != MR_OK) {
        payload_fini(&writer);
        return status;
    }
    *out = count == 0 ? NULL : payload_take(&writer);
    return MR_OK;
}
