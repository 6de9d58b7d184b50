/* afar.c — see afar.h. */
#include "kv/shelf/afar.h"

#include "base/error.h"

static bool is_afar(const parcel_section *section) {
    return (section->flags & PARCEL_AFAR) != 0 && parcel_is_push(section->op);
}

static size_t bytes_of(const parcel_section *section) { return section->count * mr_dtype_size(section->dtype); }

const void *afar_values(const afar_sight *sight, const parcel_section *section, size_t bytes) {
    const glass_view *view = sight == NULL ? NULL : sight->see(sight->context, section->afar.process);
    return view == NULL ? NULL : glass_at(view, section->afar.offset, bytes);
}

bool afar_speaks(span parcel) {
    span bytes;
    parcel_tray tray;
    bool speaks = false;
    if (parcel_align(parcel, &tray, &bytes) != MR_OK) return true; /* whoever looks closer will say */
    parcel_reader reader = parcel_open(bytes);
    for (parcel_section section; !speaks && parcel_next(&reader, &section);) speaks = is_afar(&section);
    parcel_clear(&tray);
    return speaks;
}

/* How many there are. False: one of them cannot be seen. */
static bool look(const afar_sight *sight, span parcel, size_t *count) {
    parcel_reader reader = parcel_open(parcel);
    *count = 0;
    for (parcel_section section; parcel_next(&reader, &section);) {
        if (!is_afar(&section)) continue;
        if (afar_values(sight, &section, bytes_of(&section)) == NULL) return false;
        ++*count;
    }
    return true;
}

bool afar_is_there(const afar_sight *sight, span parcel) {
    span bytes;
    parcel_tray tray;
    size_t count;
    if (parcel_align(parcel, &tray, &bytes) != MR_OK) return false;
    bool there = look(sight, bytes, &count);
    parcel_clear(&tray);
    return there;
}

/* As it is, or with the values in it. */
static mr_status add(const afar_sight *sight, const parcel_section *section, parcel_writer *out) {
    parcel_head head = {section->table, section->op, section->flags, section->dtype, section->count};
    parcel_room room;
    if (!is_afar(section)) return parcel_copy(out, section);
    head.flags &= (uint8_t)~PARCEL_AFAR;
    const void *values = afar_values(sight, section, bytes_of(section));
    if (values == NULL) return MR_NOT_FOUND;
    MR_TRY(parcel_add(out, head, bytes_of(section), &room));
    *room.place = section->place;
    memcpy(room.values, values, bytes_of(section));
    return MR_OK;
}

mr_status afar_fetch(const afar_sight *sight, span parcel, bale **out) {
    parcel_writer writer = {0};
    span bytes;
    parcel_tray tray;
    size_t count;
    MR_TRY(parcel_align(parcel, &tray, &bytes));
    mr_status status = look(sight, bytes, &count)
                           ? MR_OK
                           : error_set(MR_NOT_FOUND, "the worker's memory cannot be read (%zu bytes)", parcel.size);
    parcel_reader reader = parcel_open(bytes);
    for (parcel_section section; status == MR_OK && count != 0 && parcel_next(&reader, &section);)
        status = add(sight, &section, &writer);
    parcel_clear(&tray);
    if (status != MR_OK) {
        parcel_fini(&writer);
        return status;
    }
    *out = count == 0 ? NULL : parcel_take(&writer);
    return MR_OK;
}
