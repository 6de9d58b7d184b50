/* consumer_group.c — see consumer_group.h. */
#include "cluster/consumer_group.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "base/format.h"
#include "base/mutation.h"
#include "base/varint.h"
#include "cluster/control_message.h"

/* no claim is added above this size: it leaves room for members */
enum { BYTES_MAX = CONTROL_MESSAGE_VALUE_MAX - 4096 };

bool consumer_group_is_full(const consumer_group *group) {
    return group->claims.count == BATCH_CLAIMS_MAX || consumer_group_size(group) > BYTES_MAX;
}

void consumer_group_fini(consumer_group *group) {
    free(group->members);
    free(group->parts);
    batch_claims_fini(&group->claims);
    *group = (struct consumer_group){0};
}

void consumer_group_copy(consumer_group *to, const consumer_group *from) {
    consumer_group_fini(to);
    *to = *from;
    to->claims = (batch_claims){0};
    batch_claims_copy(&to->claims, &from->claims);
    to->members = xcopy(from->members, from->member_count * sizeof *to->members);
    to->parts = xcopy(from->parts, from->part_count * sizeof *to->parts);
}

/* ---- Members. */

static size_t seek(const consumer_group *group, uint32_t id) {
    return binary_search_first(&id, group->members, group->member_count, sizeof *group->members, binary_search_u32);
}

static consumer_group_member *find(const consumer_group *group, uint32_t id) {
    return binary_search_find(&id, group->members, group->member_count, sizeof *group->members, binary_search_u32);
}

const consumer_group_member *consumer_group_find(const consumer_group *group, uint32_t id) { return find(group, id); }

size_t consumer_group_group(const consumer_group *consumer_group, uint8_t group) {
    size_t count = 0;
    for (size_t i = 0; i < consumer_group->member_count; i++) count += (consumer_group->members[i].role & group) != 0;
    return count;
}

static bool holds(const consumer_group_part *part, const consumer_group_member *member) {
    return part->holder == member->id && part->incarnation == member->incarnation;
}

static void leave_parts(consumer_group *group, const consumer_group_member *member) {
    if (MUTATED("no-handover")) return;
    for (size_t i = 0; i < group->part_count; i++) {
        consumer_group_part *part = &group->parts[i];
        if (!holds(part, member)) continue;
        part->holder = CONSUMER_GROUP_NOBODY;
        part->incarnation = 0;
        if (MUTATED("from-start")) part->position = 0;
    }
}

/* ---- Members that join and leave. */

void consumer_group_remove(consumer_group *group, uint32_t id) {
    consumer_group_member *member = find(group, id);
    if (member == NULL) return;
    leave_parts(group, member);
    size_t at = (size_t)(member - group->members);
    MR_ASSERT(at < group->member_count);
    memmove(member, member + 1, (group->member_count - at - 1) * sizeof *member);
    group->member_count--;
}

mr_status consumer_group_put(consumer_group *group, const consumer_group_member *member) {
    const consumer_group_member *there = find(group, member->id);
    if (there != NULL && there->incarnation > member->incarnation) return MR_STALE;
    if (there != NULL && there->incarnation == member->incarnation) return MR_OK;
    consumer_group_remove(group, member->id);
    if (group->member_count == CONSUMER_GROUP_MEMBERS_MAX)
        return error_set(MR_TOO_LARGE, "the consumer group has %d members, which is the limit",
                         CONSUMER_GROUP_MEMBERS_MAX);
    MR_ASSERT(member->id != CONSUMER_GROUP_NOBODY && consumer_group_is_role(member->role) && member->incarnation != 0);
    size_t at = seek(group, member->id);
    group->members = xrealloc(group->members, (group->member_count + 1) * sizeof *group->members);
    memmove(&group->members[at + 1], &group->members[at], (group->member_count - at) * sizeof *group->members);
    group->members[at] = *member;
    group->member_count++;
    return MR_OK;
}

/* ---- Parts. */

void consumer_group_cut(consumer_group *group, const uint64_t *sizes, size_t count) {
    if (group->part_count != 0 || count > CONSUMER_GROUP_PARTS_MAX) return;
    free(group->parts);
    group->parts = xcalloc(count + 1, sizeof *group->parts);
    group->part_count = count;
    for (size_t i = 0; i < count; i++)
        group->parts[i] = (consumer_group_part){.size = sizes[i], .holder = CONSUMER_GROUP_NOBODY};
}

static bool is_done(const consumer_group_part *part) { return part->position == part->size; }

static void begin_epoch(consumer_group *group) {
    for (size_t i = 0; i < group->part_count; i++)
        if (!is_done(&group->parts[i])) return;
    group->epoch++;
    for (size_t i = 0; i < group->part_count; i++) group->parts[i].position = 0;
}

size_t consumer_group_source(const consumer_group *group, uint32_t id, uint64_t incarnation) {
    const consumer_group_member member = {.id = id, .incarnation = incarnation};
    size_t at = 0;
    while (at < group->part_count && (is_done(&group->parts[at]) || !holds(&group->parts[at], &member))) at++;
    if (at < group->part_count) return at;
    for (at = 0; at < group->part_count && is_done(&group->parts[at]);) at++;
    return at;
}

bool consumer_group_restart(consumer_group *group, uint64_t birth) {
    if (birth <= group->birth) return false;
    group->birth = birth;
    group->epoch = 0;
    for (size_t i = 0; i < group->part_count; i++) group->parts[i].position = 0;
    batch_claims_fini(&group->claims);
    return true;
}

bool consumer_group_grants(const consumer_group *group, const consumer_group_wish *wish) {
    const batch_claims *claims = &group->claims;
    if (wish->birth != group->birth) return true;
    if (wish->leaves)
        return wish->granted != batch_claims_granted(claims, wish->rank) ||
               !batch_claims_any(claims, wish->rank, wish->step, UINT64_MAX);
    return batch_claims_over(claims, wish->rank) >= (wish->count == 0 ? wish->past.over : wish->step + 1) ||
           (wish->count != 0 && batch_claims_find(claims, wish->rank, wish->step) != NULL);
}

bool consumer_group_pass(consumer_group *group, const consumer_group_wish *wish) {
    uint64_t before = batch_claims_over(&group->claims, wish->rank);
    batch_claims_past past = wish->past;
    if (wish->birth != group->birth) return false;
    if (MUTATED("no-return")) past.since = past.over;
    /* without room nothing changes, and the member repeats its message */
    (void)batch_claims_forget(&group->claims, wish->rank, &past);
    bool left = wish->leaves && batch_claims_return(&group->claims, wish->rank, wish->step, wish->granted);
    return left || batch_claims_over(&group->claims, wish->rank) != before;
}

/* Takes the next items for this process, at most `items`. False: there are none. */
static bool take_items(consumer_group *group, uint32_t id, uint64_t incarnation, uint64_t items,
                       batch_claims_piece *out) {
    if (batch_claims_take_back(&group->claims, items, out)) return true;
    size_t at = consumer_group_source(group, id, incarnation);
    if (at == group->part_count) return false;
    consumer_group_part *part = &group->parts[at];
    uint64_t left = part->size - part->position;
    *out = (batch_claims_piece){(uint32_t)at, group->epoch, part->position,
                                part->position + (left < items ? left : items)};
    MR_ASSERT(out->from < out->to && out->to <= part->size);
    if (!MUTATED("claims-over")) part->position = out->to;
    begin_epoch(group);
    return true;
}

/* Mutation: the step can be claimed again. */
static void forget_claim(batch_claims *claims, uint32_t rank, uint64_t step) {
    const batch_claim *found = batch_claims_find(claims, rank, step);
    if (found == NULL) return;
    size_t at = (size_t)(found - claims->list);
    memmove(&claims->list[at], &claims->list[at + 1], (claims->count - at - 1) * sizeof *claims->list);
    claims->count--;
}

mr_status consumer_group_claim(consumer_group *group, uint32_t id, uint64_t incarnation,
                               const consumer_group_wish *wish) {
    const consumer_group_member *member = find(group, id);
    batch_claim claim = {.rank = wish->rank, .step = wish->step, .batch = wish->batch};
    if (wish->count == 0 || wish->count > BATCH_CLAIMS_STEPS_MAX || wish->batch == 0 ||
        wish->batch > BATCH_CLAIMS_BATCH_MAX || wish->step > UINT64_MAX - wish->count)
        return error_set(MR_INVALID, "invalid batch claim of rank %u for %u steps", wish->rank, wish->count);
    if (member == NULL || member->incarnation != incarnation || member->role != CONSUMER_GROUP_WORKER) return MR_STALE;
    if (wish->birth != group->birth) return MR_STALE;
    if (MUTATED("claims-anew")) forget_claim(&group->claims, wish->rank, wish->step);
    uint32_t left = batch_claims_free(&group->claims, wish->rank, wish->step, wish->count);
    for (int pieces = 0; left != 0 && pieces < CONSUMER_GROUP_PIECES_MAX; pieces++) {
        if (consumer_group_size(group) > BYTES_MAX || !batch_claims_has_room(&group->claims, wish->rank))
            return pieces == 0 ? error_set(MR_TOO_LARGE, "the consumer group's limit is %d bytes", BYTES_MAX) : MR_OK;
        if (!take_items(group, id, incarnation, left * wish->batch, &claim.piece)) break;
        claim.count = (uint32_t)((claim.piece.to - claim.piece.from + wish->batch - 1) / wish->batch);
        MR_TRY(batch_claims_add(&group->claims, &claim));
        claim.step += claim.count;
        left -= claim.count;
    }
    return claim.step == wish->step ? MR_STALE : MR_OK;
}

/* The number of unfinished parts of each member; the caller frees it. */
static size_t *count_loads(const consumer_group *group) {
    size_t *loads = xcalloc(group->member_count + 1, sizeof *loads);
    for (size_t i = 0; i < group->part_count; i++) {
        const consumer_group_part *part = &group->parts[i];
        const consumer_group_member *holder = is_done(part) ? NULL : find(group, part->holder);
        if (holder != NULL && holds(part, holder)) loads[holder - group->members]++;
    }
    return loads;
}

/* Workers with the fewest and the most unfinished parts; among equals the lowest id. False: no workers. */
static bool extremes(const consumer_group *group, const size_t *loads, size_t *least, size_t *most) {
    bool found = false;
    for (size_t i = 0; i < group->member_count; i++) {
        if (group->members[i].role != CONSUMER_GROUP_WORKER) continue;
        if (!found) *least = *most = i;
        if (loads[i] < loads[*least]) *least = i;
        if (loads[i] > loads[*most]) *most = i;
        found = true;
    }
    return found;
}

static void give(consumer_group *group, size_t part, size_t *loads, size_t to) {
    MR_ASSERT(part < group->part_count && to < group->member_count && group->members[to].role == CONSUMER_GROUP_WORKER);
    group->parts[part].holder = group->members[to].id;
    group->parts[part].incarnation = group->members[to].incarnation;
    loads[to]++;
}

/* The last unfinished part of a member that has one: a worker works on its first part and gives up its last. */
static size_t last_of(const consumer_group *group, const consumer_group_member *member) {
    size_t at = group->part_count;
    do MR_ASSERT(at-- > 0);
    while (is_done(&group->parts[at]) || !holds(&group->parts[at], member));
    return at;
}

void consumer_group_deal(consumer_group *group) {
    size_t *loads = count_loads(group), least = 0, most = 0;
    for (size_t i = 0; i < group->part_count && extremes(group, loads, &least, &most); i++)
        if (!is_done(&group->parts[i]) && group->parts[i].holder == CONSUMER_GROUP_NOBODY) give(group, i, loads, least);
    while (extremes(group, loads, &least, &most) && loads[most] > loads[least] + 1 && !MUTATED("no-share")) {
        loads[most]--;
        give(group, last_of(group, &group->members[most]), loads, least);
    }
    free(loads);
}

/* ---- Encoding. */

/* Length of the common prefix of two addresses. */
static size_t shared(const char *before, const char *address) {
    size_t count = 0;
    while (before[count] != '\0' && before[count] == address[count]) count++;
    return count;
}

static void write_members(const consumer_group *group, writer *writer) {
    uint32_t next = 0;
    const char *before = "";
    writer_varint(writer, group->member_count);
    for (size_t i = 0; i < group->member_count; i++) {
        const consumer_group_member *member = &group->members[i];
        size_t same = shared(before, member->address);
        writer_varint(writer, member->id - next);
        writer_varint(writer, varint_fold(member->incarnation, group->number));
        writer_u8(writer, member->role);
        writer_u8(writer, 0); /* layout 4: always zero */
        writer_u8(writer, (uint8_t)same);
        writer_text8(writer, member->address + same);
        next = member->id + 1;
        before = member->address;
    }
}

void consumer_group_encode(const consumer_group *group, writer *writer) {
    writer_u8(writer, CONSUMER_GROUP_LAYOUT);
    writer_u64(writer, group->number);
    writer_u64(writer, group->birth);
    write_members(group, writer);
    writer_u8(writer, 0); /* layout 4: always zero */
    writer_varint(writer, group->epoch);
    writer_varint(writer, group->part_count);
    for (size_t i = 0; i < group->part_count; i++) {
        const consumer_group_part *part = &group->parts[i];
        bool held = part->holder != CONSUMER_GROUP_NOBODY;
        writer_varint(writer, part->size);
        writer_varint(writer, part->position);
        writer_varint(writer, held ? part->holder + UINT64_C(1) : 0);
        if (held) writer_varint(writer, varint_fold(part->incarnation, group->number));
    }
    batch_claims_encode(&group->claims, group->epoch, writer);
}

size_t consumer_group_size(const consumer_group *group) {
    writer writer = writer_of(NULL, 0);
    consumer_group_encode(group, &writer);
    return writer_needs(&writer);
}

/* Reads an address whose common prefix with the previous one is left out; a shorter prefix than possible is
 * malformed. */
static bool read_address(reader *reader, const char *before, char address[CONSUMER_GROUP_ADDRESS_MAX]) {
    size_t same = reader_u8(reader);
    if (reader->failed || same > strlen(before)) return false;
    memcpy(address, before, same);
    return reader_text8(reader, address + same, CONSUMER_GROUP_ADDRESS_MAX - same) && shared(before, address) == same;
}

static bool read_members(reader *reader, consumer_group *group) {
    uint64_t count = reader_varint(reader), next = 0;
    if (reader->failed || count > CONSUMER_GROUP_MEMBERS_MAX) return false;
    group->members = xcalloc((size_t)count + 1, sizeof *group->members);
    for (; group->member_count < count; group->member_count++) {
        consumer_group_member *member = &group->members[group->member_count];
        uint64_t gap = reader_varint(reader);
        if (reader->failed || gap >= CONSUMER_GROUP_NOBODY - next) return false;
        member->id = (uint32_t)(next + gap);
        next = member->id + UINT64_C(1);
        member->incarnation = varint_unfold(reader_varint(reader), group->number);
        member->role = reader_u8(reader);
        bool waits = reader_u8(reader) != 0; /* always zero */
        if (waits || !consumer_group_is_role(member->role) ||
            !read_address(reader, group->member_count == 0 ? "" : member[-1].address, member->address))
            return false;
    }
    return true;
}

static bool read_parts(reader *reader, consumer_group *group) {
    group->epoch = reader_varint(reader);
    uint64_t count = reader_varint(reader);
    if (reader->failed || count > CONSUMER_GROUP_PARTS_MAX) return false;
    group->parts = xcalloc((size_t)count + 1, sizeof *group->parts);
    for (; group->part_count < count; group->part_count++) {
        consumer_group_part *part = &group->parts[group->part_count];
        part->size = reader_varint(reader);
        part->position = reader_varint(reader);
        uint64_t holder = reader_varint(reader);
        if (part->position > part->size || holder > CONSUMER_GROUP_NOBODY) return false;
        part->holder = holder == 0 ? CONSUMER_GROUP_NOBODY : (uint32_t)(holder - 1);
        if (holder != 0) part->incarnation = varint_unfold(reader_varint(reader), group->number);
    }
    return !reader->failed;
}

mr_status consumer_group_decode(span bytes, consumer_group *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    consumer_group group = {0};
    uint8_t layout = reader_u8(&reader);
    if (!reader.failed && layout != CONSUMER_GROUP_LAYOUT)
        return format_reject("the consumer group's state", layout, CONSUMER_GROUP_LAYOUT, FORMAT_USE_SAME);
    group.number = reader_u64(&reader);
    group.birth = reader_u64(&reader);
    if (!read_members(&reader, &group) || reader_u8(&reader) != 0 || !read_parts(&reader, &group) ||
        !batch_claims_decode(&reader, group.epoch, &group.claims) || reader.failed || reader_left(&reader) != 0) {
        consumer_group_fini(&group);
        return error_set(MR_CORRUPT, "malformed consumer group state of %zu bytes", bytes.size);
    }
    consumer_group_fini(out);
    *out = group;
    return MR_OK;
}

/* ---- Invariants. */

void consumer_group_check(const consumer_group *group) {
    MR_ASSERT(group->member_count <= CONSUMER_GROUP_MEMBERS_MAX && group->part_count <= CONSUMER_GROUP_PARTS_MAX);
    for (size_t i = 0; i < group->member_count; i++) {
        const consumer_group_member *member = &group->members[i];
        MR_ASSERT((i == 0 || member[-1].id < member->id) && consumer_group_is_role(member->role)); /* 1 */
    }
    for (size_t i = 0; i < group->part_count; i++) {
        const consumer_group_part *part = &group->parts[i];
        MR_ASSERT(part->position <= part->size);                                    /* 2 */
        MR_ASSERT(part->holder != CONSUMER_GROUP_NOBODY || part->incarnation == 0); /* 2 */
    }
    batch_claims_check(&group->claims); /* 3 */
}
