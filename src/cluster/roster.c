/* roster.c — see roster.h. */
#include "cluster/roster.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"
#include "base/mutation.h"
#include "base/search.h"
#include "base/varint.h"
#include "cluster/letter.h"

enum { BYTES_MAX = LETTER_VALUE_MAX - 4096 }; /* beyond that no claims are taken: members come first */

bool roster_is_full(const roster *roster) {
    return roster->claims.count == CLAIMS_MAX || roster_size(roster) > BYTES_MAX;
}

void roster_fini(roster *roster) {
    free(roster->members);
    free(roster->parts);
    claims_fini(&roster->claims);
    *roster = (struct roster){0};
}

void roster_copy(roster *to, const roster *from) {
    roster_fini(to);
    *to = *from;
    to->claims = (claims){0};
    claims_copy(&to->claims, &from->claims);
    to->members = xcalloc(from->member_count + 1, sizeof *to->members);
    to->parts = xcalloc(from->part_count + 1, sizeof *to->parts);
    if (from->member_count != 0) memcpy(to->members, from->members, from->member_count * sizeof *to->members);
    if (from->part_count != 0) memcpy(to->parts, from->parts, from->part_count * sizeof *to->parts);
}

/* ---- Members. */

static size_t seek(const roster *roster, uint32_t id) {
    return search_first(&id, roster->members, roster->member_count, sizeof *roster->members, search_u32);
}

static roster_member *find(const roster *roster, uint32_t id) {
    size_t at = seek(roster, id);
    return at < roster->member_count && roster->members[at].id == id ? &roster->members[at] : NULL;
}

const roster_member *roster_find(const roster *roster, uint32_t id) { return find(roster, id); }

size_t roster_group(const roster *roster, uint8_t group) {
    size_t count = 0;
    for (size_t i = 0; i < roster->member_count; i++) count += (roster->members[i].role & group) != 0;
    return count;
}

static bool is_role(uint8_t role) { return role == ROSTER_SCHEDULER || role == ROSTER_SERVER || role == ROSTER_WORKER; }

static bool holds(const roster_part *part, const roster_member *member) {
    return part->holder == member->id && part->incarnation == member->incarnation;
}

static void leave_parts(roster *roster, const roster_member *member) {
    if (MUTATED("no-handover")) return;
    for (size_t i = 0; i < roster->part_count; i++) {
        roster_part *part = &roster->parts[i];
        if (!holds(part, member)) continue;
        part->holder = ROSTER_NOBODY;
        part->incarnation = 0;
        if (MUTATED("from-start")) part->position = 0;
    }
}

/* ---- Coming and going. */

void roster_remove(roster *roster, uint32_t id) {
    roster_member *member = find(roster, id);
    if (member == NULL) return;
    leave_parts(roster, member);
    size_t at = (size_t)(member - roster->members);
    MR_ASSERT(at < roster->member_count);
    memmove(member, member + 1, (roster->member_count - at - 1) * sizeof *member);
    roster->member_count--;
}

mr_status roster_put(roster *roster, const roster_member *member) {
    const roster_member *there = find(roster, member->id);
    if (there != NULL && there->incarnation > member->incarnation) return MR_STALE;
    if (there != NULL && there->incarnation == member->incarnation) return MR_OK;
    roster_remove(roster, member->id);
    if (roster->member_count == ROSTER_MEMBERS_MAX)
        return error_set(MR_TOO_LARGE, "the consumer group has %d members, which is the limit", ROSTER_MEMBERS_MAX);
    MR_ASSERT(member->id != ROSTER_NOBODY && is_role(member->role) && member->incarnation != 0);
    size_t at = seek(roster, member->id);
    roster->members = xrealloc(roster->members, (roster->member_count + 1) * sizeof *roster->members);
    memmove(&roster->members[at + 1], &roster->members[at], (roster->member_count - at) * sizeof *roster->members);
    roster->members[at] = *member;
    roster->member_count++;
    return MR_OK;
}

/* ---- Parts. */

void roster_cut(roster *roster, const uint64_t *sizes, size_t count) {
    if (roster->part_count != 0 || count > ROSTER_PARTS_MAX) return;
    free(roster->parts);
    roster->parts = xcalloc(count + 1, sizeof *roster->parts);
    roster->part_count = count;
    for (size_t i = 0; i < count; i++) roster->parts[i] = (roster_part){.size = sizes[i], .holder = ROSTER_NOBODY};
}

static bool is_done(const roster_part *part) { return part->position == part->size; }

static void begin_epoch(roster *roster) {
    for (size_t i = 0; i < roster->part_count; i++)
        if (!is_done(&roster->parts[i])) return;
    roster->epoch++;
    for (size_t i = 0; i < roster->part_count; i++) roster->parts[i].position = 0;
}

size_t roster_source(const roster *roster, uint32_t id, uint64_t incarnation) {
    const roster_member member = {.id = id, .incarnation = incarnation};
    size_t at = 0;
    while (at < roster->part_count && (is_done(&roster->parts[at]) || !holds(&roster->parts[at], &member))) at++;
    if (at < roster->part_count) return at;
    for (at = 0; at < roster->part_count && is_done(&roster->parts[at]);) at++;
    return at;
}

bool roster_restart(roster *roster, uint64_t birth) {
    if (birth <= roster->birth) return false;
    roster->birth = birth;
    roster->epoch = 0;
    for (size_t i = 0; i < roster->part_count; i++) roster->parts[i].position = 0;
    claims_fini(&roster->claims);
    return true;
}

bool roster_grants(const roster *roster, const roster_wish *wish) {
    const claims *claims = &roster->claims;
    if (wish->birth != roster->birth) return true;
    if (wish->leaves)
        return wish->granted != claims_granted(claims, wish->rank) ||
               !claims_any(claims, wish->rank, wish->step, UINT64_MAX);
    return claims_over(claims, wish->rank) >= (wish->count == 0 ? wish->past.over : wish->step + 1) ||
           (wish->count != 0 && claims_find(claims, wish->rank, wish->step) != NULL);
}

bool roster_pass(roster *roster, const roster_wish *wish) {
    uint64_t before = claims_over(&roster->claims, wish->rank);
    claims_past past = wish->past;
    if (wish->birth != roster->birth) return false;
    if (MUTATED("no-return")) past.since = past.over;
    (void)claims_forget(&roster->claims, wish->rank, &past); /* without room it is said again */
    bool left = wish->leaves && claims_return(&roster->claims, wish->rank, wish->step, wish->granted);
    return left || claims_over(&roster->claims, wish->rank) != before;
}

/* The next items for this process, so many at most; false: there are none. */
static bool take_items(roster *roster, uint32_t id, uint64_t incarnation, uint64_t items, claims_piece *out) {
    if (claims_take_back(&roster->claims, items, out)) return true;
    size_t at = roster_source(roster, id, incarnation);
    if (at == roster->part_count) return false;
    roster_part *part = &roster->parts[at];
    uint64_t left = part->size - part->position;
    *out = (claims_piece){(uint32_t)at, roster->epoch, part->position, part->position + (left < items ? left : items)};
    MR_ASSERT(out->from < out->to && out->to <= part->size);
    if (!MUTATED("claims-over")) part->position = out->to;
    begin_epoch(roster);
    return true;
}

/* A mutation: the step can be claimed again. */
static void forget_claim(claims *claims, uint32_t rank, uint64_t step) {
    const claim *found = claims_find(claims, rank, step);
    if (found == NULL) return;
    size_t at = (size_t)(found - claims->list);
    memmove(&claims->list[at], &claims->list[at + 1], (claims->count - at - 1) * sizeof *claims->list);
    claims->count--;
}

mr_status roster_claim(roster *roster, uint32_t id, uint64_t incarnation, const roster_wish *wish) {
    const roster_member *member = find(roster, id);
    claim claim = {.rank = wish->rank, .step = wish->step, .batch = wish->batch};
    if (wish->count == 0 || wish->count > CLAIMS_STEPS_MAX || wish->batch == 0 || wish->batch > CLAIMS_BATCH_MAX ||
        wish->step > UINT64_MAX - wish->count)
        return error_set(MR_INVALID, "invalid batch claim of rank %u for %u steps", wish->rank, wish->count);
    if (member == NULL || member->incarnation != incarnation || member->role != ROSTER_WORKER) return MR_STALE;
    if (wish->birth != roster->birth) return MR_STALE;
    if (MUTATED("claims-anew")) forget_claim(&roster->claims, wish->rank, wish->step);
    uint32_t left = claims_free(&roster->claims, wish->rank, wish->step, wish->count);
    for (int pieces = 0; left != 0 && pieces < ROSTER_PIECES_MAX; pieces++) {
        if (roster_size(roster) > BYTES_MAX || !claims_has_room(&roster->claims, wish->rank))
            return pieces == 0 ? error_set(MR_TOO_LARGE, "the consumer group's limit is %d bytes", BYTES_MAX) : MR_OK;
        if (!take_items(roster, id, incarnation, left * wish->batch, &claim.piece)) break;
        claim.count = (uint32_t)((claim.piece.to - claim.piece.from + wish->batch - 1) / wish->batch);
        MR_TRY(claims_add(&roster->claims, &claim));
        claim.step += claim.count;
        left -= claim.count;
    }
    return claim.step == wish->step ? MR_STALE : MR_OK;
}

/* How many parts that are not done each member has; the caller's. */
static size_t *count_loads(const roster *roster) {
    size_t *loads = xcalloc(roster->member_count + 1, sizeof *loads);
    for (size_t i = 0; i < roster->part_count; i++) {
        const roster_part *part = &roster->parts[i];
        const roster_member *holder = is_done(part) ? NULL : find(roster, part->holder);
        if (holder != NULL && holds(part, holder)) loads[holder - roster->members]++;
    }
    return loads;
}

/* The workers with the fewest and with the most; the lowest ids of those. False: there are no workers. */
static bool extremes(const roster *roster, const size_t *loads, size_t *least, size_t *most) {
    bool found = false;
    for (size_t i = 0; i < roster->member_count; i++) {
        if (roster->members[i].role != ROSTER_WORKER) continue;
        if (!found) *least = *most = i;
        if (loads[i] < loads[*least]) *least = i;
        if (loads[i] > loads[*most]) *most = i;
        found = true;
    }
    return found;
}

static void give(roster *roster, size_t part, size_t *loads, size_t to) {
    MR_ASSERT(part < roster->part_count && to < roster->member_count && roster->members[to].role == ROSTER_WORKER);
    roster->parts[part].holder = roster->members[to].id;
    roster->parts[part].incarnation = roster->members[to].incarnation;
    loads[to]++;
}

/* A worker works on its first part: what it gives up is its last. It has one. */
static size_t last_of(const roster *roster, const roster_member *member) {
    size_t at = roster->part_count;
    do MR_ASSERT(at-- > 0);
    while (is_done(&roster->parts[at]) || !holds(&roster->parts[at], member));
    return at;
}

void roster_deal(roster *roster) {
    size_t *loads = count_loads(roster), least = 0, most = 0;
    for (size_t i = 0; i < roster->part_count && extremes(roster, loads, &least, &most); i++)
        if (!is_done(&roster->parts[i]) && roster->parts[i].holder == ROSTER_NOBODY) give(roster, i, loads, least);
    while (extremes(roster, loads, &least, &most) && loads[most] > loads[least] + 1 && !MUTATED("no-share")) {
        loads[most]--;
        give(roster, last_of(roster, &roster->members[most]), loads, least);
    }
    free(loads);
}

/* ---- Bytes. */

/* How many bytes two addresses have in common from the beginning. */
static size_t shared(const char *before, const char *address) {
    size_t count = 0;
    while (before[count] != '\0' && before[count] == address[count]) count++;
    return count;
}

static void write_members(const roster *roster, writer *writer) {
    uint32_t next = 0;
    const char *before = "";
    writer_varint(writer, roster->member_count);
    for (size_t i = 0; i < roster->member_count; i++) {
        const roster_member *member = &roster->members[i];
        size_t same = shared(before, member->address);
        writer_varint(writer, member->id - next);
        writer_varint(writer, varint_fold(member->incarnation, roster->number));
        writer_u8(writer, member->role);
        writer_u8(writer, 0); /* waits at no barrier */
        writer_u8(writer, (uint8_t)same);
        writer_text8(writer, member->address + same);
        next = member->id + 1;
        before = member->address;
    }
}

void roster_encode(const roster *roster, writer *writer) {
    writer_u8(writer, ROSTER_LAYOUT);
    writer_u64(writer, roster->number);
    writer_u64(writer, roster->birth);
    write_members(roster, writer);
    writer_u8(writer, 0); /* barriers */
    writer_varint(writer, roster->epoch);
    writer_varint(writer, roster->part_count);
    for (size_t i = 0; i < roster->part_count; i++) {
        const roster_part *part = &roster->parts[i];
        bool held = part->holder != ROSTER_NOBODY;
        writer_varint(writer, part->size);
        writer_varint(writer, part->position);
        writer_varint(writer, held ? part->holder + UINT64_C(1) : 0);
        if (held) writer_varint(writer, varint_fold(part->incarnation, roster->number));
    }
    claims_encode(&roster->claims, roster->epoch, writer);
}

size_t roster_size(const roster *roster) {
    writer writer = writer_of(NULL, 0);
    roster_encode(roster, &writer);
    return writer_needs(&writer);
}

/* The rest behind what it shares with the one before; as much as it does share, no less. */
static bool read_address(reader *reader, const char *before, char address[ROSTER_ADDRESS_MAX]) {
    size_t same = reader_u8(reader);
    if (reader->failed || same > strlen(before)) return false;
    memcpy(address, before, same);
    return reader_text8(reader, address + same, ROSTER_ADDRESS_MAX - same) && shared(before, address) == same;
}

static bool read_members(reader *reader, roster *roster) {
    uint64_t count = reader_varint(reader), next = 0;
    if (reader->failed || count > ROSTER_MEMBERS_MAX) return false;
    roster->members = xcalloc((size_t)count + 1, sizeof *roster->members);
    for (; roster->member_count < count; roster->member_count++) {
        roster_member *member = &roster->members[roster->member_count];
        uint64_t gap = reader_varint(reader);
        if (reader->failed || gap >= ROSTER_NOBODY - next) return false;
        member->id = (uint32_t)(next + gap);
        next = member->id + UINT64_C(1);
        member->incarnation = varint_unfold(reader_varint(reader), roster->number);
        member->role = reader_u8(reader);
        bool waits = reader_u8(reader) != 0; /* at a barrier: there are none */
        if (waits || !is_role(member->role) ||
            !read_address(reader, roster->member_count == 0 ? "" : member[-1].address, member->address))
            return false;
    }
    return true;
}

static bool read_parts(reader *reader, roster *roster) {
    roster->epoch = reader_varint(reader);
    uint64_t count = reader_varint(reader);
    if (reader->failed || count > ROSTER_PARTS_MAX) return false;
    roster->parts = xcalloc((size_t)count + 1, sizeof *roster->parts);
    for (; roster->part_count < count; roster->part_count++) {
        roster_part *part = &roster->parts[roster->part_count];
        part->size = reader_varint(reader);
        part->position = reader_varint(reader);
        uint64_t holder = reader_varint(reader);
        if (part->position > part->size || holder > ROSTER_NOBODY) return false;
        part->holder = holder == 0 ? ROSTER_NOBODY : (uint32_t)(holder - 1);
        if (holder != 0) part->incarnation = varint_unfold(reader_varint(reader), roster->number);
    }
    return !reader->failed;
}

mr_status roster_decode(span bytes, roster *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    roster roster = {0};
    uint8_t layout = reader_u8(&reader);
    if (!reader.failed && layout != ROSTER_LAYOUT)
        return format_reject("the consumer group's state", layout, ROSTER_LAYOUT, FORMAT_USE_SAME);
    roster.number = reader_u64(&reader);
    roster.birth = reader_u64(&reader);
    if (!read_members(&reader, &roster) || reader_u8(&reader) != 0 || !read_parts(&reader, &roster) ||
        !claims_decode(&reader, roster.epoch, &roster.claims) || reader.failed || reader_left(&reader) != 0) {
        roster_fini(&roster);
        return error_set(MR_CORRUPT, "malformed consumer group state of %zu bytes", bytes.size);
    }
    roster_fini(out);
    *out = roster;
    return MR_OK;
}

/* ---- Invariants. */

void roster_check(const roster *roster) {
    MR_ASSERT(roster->member_count <= ROSTER_MEMBERS_MAX && roster->part_count <= ROSTER_PARTS_MAX);
    for (size_t i = 0; i < roster->member_count; i++) {
        const roster_member *member = &roster->members[i];
        MR_ASSERT((i == 0 || member[-1].id < member->id) && is_role(member->role)); /* 1 */
    }
    for (size_t i = 0; i < roster->part_count; i++) {
        const roster_part *part = &roster->parts[i];
        MR_ASSERT(part->position <= part->size);                            /* 2 */
        MR_ASSERT(part->holder != ROSTER_NOBODY || part->incarnation == 0); /* 2 */
    }
    claims_check(&roster->claims); /* 3 */
}
