/* membership_view.c — see membership_view.h. */
#include "cluster/membership_view.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "base/format.h"

void membership_view_fini(membership_view *view) {
    free(view->members);
    *view = (membership_view){0};
}

static void reserve(membership_view *view, size_t count) {
    MR_ASSERT(count <= MEMBERSHIP_VIEW_MEMBERS_MAX);
    xgrow(&view->members, &view->capacity, count, sizeof *view->members);
}

void membership_view_copy(membership_view *to, const membership_view *from) {
    MR_ASSERT(to != from);
    reserve(to, from->count);
    if (from->count != 0) memcpy(to->members, from->members, from->count * sizeof *from->members);
    to->number = from->number;
    to->count = from->count;
}

static bool member_equal(const membership_view_member *a, const membership_view_member *b) {
    return a->id == b->id && a->incarnation == b->incarnation && strcmp(a->address, b->address) == 0;
}

bool membership_view_equal(const membership_view *a, const membership_view *b) {
    if (a->number != b->number || a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!member_equal(&a->members[i], &b->members[i])) return false;
    return true;
}

/* Index of the first member whose id is at least `id`. */
static size_t seek(const membership_view *view, uint64_t id) {
    return binary_search_first(&id, view->members, view->count, sizeof *view->members, binary_search_u64);
}

const membership_view_member *membership_view_find(const membership_view *view, uint64_t id) {
    return binary_search_find(&id, view->members, view->count, sizeof *view->members, binary_search_u64);
}

bool membership_view_holds(const membership_view *view, uint64_t id, uint64_t incarnation) {
    const membership_view_member *member = membership_view_find(view, id);
    return member != NULL && member->incarnation == incarnation;
}

const membership_view_member *membership_view_leader(const membership_view *view) {
    const membership_view_member *leader = NULL;
    for (size_t i = 0; i < view->count; i++)
        if (leader == NULL || view->members[i].incarnation < leader->incarnation) leader = &view->members[i];
    return leader;
}

bool membership_view_address_valid(const char *address) {
    size_t length = strnlen(address, MEMBERSHIP_VIEW_ADDRESS_MAX);
    if (length == 0 || length >= MEMBERSHIP_VIEW_ADDRESS_MAX) return false;
    for (size_t i = 0; i < length; i++)
        if (address[i] <= ' ' || address[i] > '~') return false;
    return true;
}

mr_status membership_view_put(membership_view *view, uint64_t id, uint64_t incarnation, const char *address) {
    MR_ASSERT(incarnation != 0);
    if (!membership_view_address_valid(address))
        return error_set(MR_INVALID, "invalid member address '%.80s'", address);
    size_t at = seek(view, id);
    bool known = at < view->count && view->members[at].id == id;
    if (!known && view->count == MEMBERSHIP_VIEW_MEMBERS_MAX)
        return error_set(MR_TOO_LARGE, "the membership view has %d members, which is the limit",
                         MEMBERSHIP_VIEW_MEMBERS_MAX);
    if (!known) {
        reserve(view, view->count + 1);
        memmove(&view->members[at + 1], &view->members[at], (view->count - at) * sizeof *view->members);
        view->count++;
    }
    view->members[at] = (membership_view_member){.id = id, .incarnation = incarnation};
    strcpy(view->members[at].address, address);
    return MR_OK;
}

void membership_view_remove(membership_view *view, uint64_t id) {
    size_t at = seek(view, id);
    MR_ASSERT(at <= view->count && view->count <= view->capacity);
    if (at == view->count || view->members[at].id != id) return;
    view->count--;
    memmove(&view->members[at], &view->members[at + 1], (view->count - at) * sizeof *view->members);
}

/* ---- Encoding. */

size_t membership_view_size(const membership_view *view) {
    size_t size = 13;
    for (size_t i = 0; i < view->count; i++) size += 17 + strlen(view->members[i].address);
    return size;
}

uint8_t *membership_view_write(const membership_view *view, size_t *size) {
    *size = membership_view_size(view);
    uint8_t *bytes = xmalloc(*size);
    writer writer = writer_of(bytes, *size);
    membership_view_encode(view, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == *size);
    return bytes;
}

void membership_view_encode(const membership_view *view, writer *writer) {
    MR_ASSERT(view->number != 0 && view->count <= MEMBERSHIP_VIEW_MEMBERS_MAX);
    writer_u8(writer, MEMBERSHIP_VIEW_LAYOUT);
    writer_u64(writer, view->number);
    writer_u32(writer, (uint32_t)view->count);
    for (size_t i = 0; i < view->count; i++) {
        const membership_view_member *member = &view->members[i];
        writer_u64(writer, member->id);
        writer_u64(writer, member->incarnation);
        writer_text8(writer, member->address);
    }
}

static bool read_member(reader *reader, membership_view_member *out) {
    *out = (membership_view_member){.id = reader_u64(reader)};
    out->incarnation = reader_u64(reader);
    return reader_text8(reader, out->address, sizeof out->address) && out->incarnation != 0 &&
           membership_view_address_valid(out->address);
}

static bool incarnations_differ(const membership_view *view) {
    uint64_t *all = xmalloc(view->count * sizeof *all);
    for (size_t i = 0; i < view->count; i++) all[i] = view->members[i].incarnation;
    qsort(all, view->count, sizeof *all, binary_search_u64);
    bool differ = true;
    for (size_t i = 1; i < view->count; i++) differ = differ && all[i] != all[i - 1];
    free(all);
    return differ;
}

static bool read_members(reader *reader, membership_view *view, size_t count) {
    reserve(view, count);
    for (; view->count < count; view->count++) {
        membership_view_member *member = &view->members[view->count];
        if (!read_member(reader, member)) return false;
        if (view->count > 0 && member->id <= member[-1].id) return false;
    }
    return reader_left(reader) == 0 && incarnations_differ(view);
}

mr_status membership_view_decode(span bytes, membership_view *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint8_t layout = reader_u8(&reader);
    if (!reader.failed && layout != MEMBERSHIP_VIEW_LAYOUT)
        return format_reject("the view", layout, MEMBERSHIP_VIEW_LAYOUT, FORMAT_USE_SAME);
    membership_view fresh = {.number = reader_u64(&reader)};
    size_t count = reader_u32(&reader);
    /* A member takes at least 18 bytes, so an impossible count allocates no memory. */
    bool good = !reader.failed && fresh.number != 0 && count <= MEMBERSHIP_VIEW_MEMBERS_MAX &&
                count <= reader_left(&reader) / 18 && read_members(&reader, &fresh, count);
    if (!good) {
        membership_view_fini(&fresh);
        return error_set(MR_CORRUPT, "malformed membership view of %zu bytes", bytes.size);
    }
    membership_view_fini(out);
    *out = fresh;
    return MR_OK;
}

void membership_view_check(const membership_view *view) {
    MR_ASSERT(view->count <= view->capacity && view->count <= MEMBERSHIP_VIEW_MEMBERS_MAX); /* 1 */
    for (size_t i = 0; i < view->count; i++) {
        const membership_view_member *member = &view->members[i];
        MR_ASSERT(i == 0 || member[-1].id < member->id);                                       /* 1 */
        MR_ASSERT(member->incarnation != 0 && membership_view_address_valid(member->address)); /* 2 */
    }
}
