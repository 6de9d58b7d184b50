/* node_group.c — see node_core.h. Placement groups: their creators and waiters; the scheduler reserves their resources.
 *
 *   NODE_GROUP_CREATE ──► waits its turn ──► placed: NODE_GROUP_WAIT is answered ──► removed, or its program ended
 *
 * The creator of a group that is placed at once learns it from the answer, and is notified when another process removes
 * the group (CLIENT_GROUP_GONE).
 * What runs in one that is removed ends with that cause. One that is detached and placed outlives its program.
 * Tested by tests/placement_test.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "miniray/placement.h"
#include "runtime/look/report.h"
#include "runtime/node/node_state.h"

enum { BUNDLES_MAX = 1024, GROUPS_SHOWN = 10 * 1000 };

typedef struct node_group {
    mr_placement_group id;
    uint64_t key;   /* of it */
    uint64_t maker; /* the process that has asked for it */
    uint32_t program;
    uint64_t ticket; /* while it is not placed; 0 */
    char name[WIRE_NAME_MAX + 1];
    mr_placement_strategy strategy;
    bool detached; /* its program may end */
    list waits;    /* of group_wait */
    uint32_t count;
    resources bundles[];
} node_group;

typedef struct group_wait {
    list place;
    call_token token;
} group_wait;

/* ---- Making. */

static mr_status read_group(reader *reader, uint32_t count, node_group **out) {
    node_group *group;
    MR_TRY(alloc_try(sizeof(node_group) + count * sizeof(resources), &group));
    group->count = count;
    list_init(&group->waits);
    for (uint32_t i = 0; i < count; i++) {
        mr_status status = resources_decode(reader, &group->bundles[i]);
        if (status == MR_OK && (group->bundles[i].group != 0 || group->bundles[i].count == 0))
            status = error_set(MR_INVALID, "bundle %u is empty, or belongs to another placement group", i + 1);
        if (status == MR_OK) continue;
        free(group);
        return status;
    }
    *out = group;
    return MR_OK;
}

static bool is_apart(const node_group *group) { return group->strategy == MR_STRICT_SPREAD; }

static void warn_if_impossible(node_core *core, const node_group *group) {
    resources sum = {0};
    for (uint32_t i = 0; i < group->count; i++)
        if (resources_add(&sum, &group->bundles[i]) != MR_OK) error_clear();
    if (is_apart(group) && group->count > 1)
        node_warn_impossible(core, group->program, "a placement group with bundles on different machines", &sum,
                             "remove it, or let the bundles share a machine (MR_SPREAD, MR_PACK)");
    else if (scheduler_impossible(core->scheduler, &sum))
        node_warn_impossible(core, group->program, "a placement group", &sum, NULL);
}

static mr_status create(node_core *core, node_member *member, reader *reader, call_token token) {
    mr_placement_group id = {{reader_u64(reader), reader_u64(reader)}};
    uint8_t strategy = reader_u8(reader);
    bool detached = reader_u8(reader) != 0;
    span name = wire_get_name(reader);
    uint32_t count = reader_u32(reader);
    if (reader->failed || strategy > MR_STRICT_SPREAD || count == 0 || count > BUNDLES_MAX || wire_group_key(id) == 0)
        return error_set(MR_INVALID, "malformed placement group from process %d: strategy %u, %u bundles (1 to %d)",
                         member->pid, strategy, count, BUNDLES_MAX);
    node_group *group;
    MR_TRY(read_group(reader, count, &group));
    group->id = id;
    group->key = wire_group_key(id);
    group->maker = member->process;
    group->program = member->program;
    group->strategy = (mr_placement_strategy)strategy;
    group->detached = detached;
    group->ticket = core->next_ticket++;
    if (name.size > 0) memcpy(group->name, name.data, name.size);
    scheduler_place place = {
        .client = node_client_of(member->program), .ticket = group->ticket, .apart = is_apart(group)};
    mr_status status = node_program_of(core, member->program) == NULL
                           ? error_set(MR_CLOSED, "the driver of job %u has ended", member->program)
                           : scheduler_group_add(core->scheduler, group->key, group->bundles, count, &place);
    if (status != MR_OK) {
        free(group);
        return status;
    }
    map_put(&core->groups, group->key, group);
    map_put(&core->groups_by_ticket, group->ticket, group);
    warn_if_impossible(core, group);
    node_decide(core);
    uint8_t placed = group->ticket == 0; /* then nobody has to ask */
    node_answer(core, token, span_of(&placed, 1));
    return MR_OK;
}

/* ---- Waiting. */

static void answer_all(node_core *core, node_group *group, mr_status status) {
    for (list *at; (at = list_pop_front(&group->waits)) != NULL;) {
        group_wait *wait = container_of(at, group_wait, place);
        if (status == MR_OK)
            node_answer(core, wait->token, (span){0});
        else
            node_refuse(core, wait->token, status, NODE_GROUP_GONE);
        free(wait);
    }
}

void node_group_placed(node_core *core, uint64_t ticket) {
    node_group *group = map_remove(&core->groups_by_ticket, ticket);
    if (group == NULL) return;
    group->ticket = 0;
    answer_all(core, group, MR_OK);
}

static mr_status wait_for(node_core *core, node_group *group, call_token token) {
    if (group->ticket == 0) {
        node_answer(core, token, (span){0});
        return MR_OK;
    }
    group_wait *wait = XNEW(group_wait, .token = token);
    list_push_back(&group->waits, &wait->place);
    return MR_OK;
}

void node_group_cancel(node_core *core, call_token token) {
    map_slot slot;
    for (size_t at = 0; (at = map_next(&core->groups_by_ticket, at, &slot)) != 0;) {
        list_for_each (place, &((node_group *)slot.value)->waits) {
            group_wait *wait = container_of(place, group_wait, place);
            if (wait->token.link.v != token.link.v || wait->token.number != token.number) continue;
            list_remove(&wait->place);
            free(wait);
            return;
        }
    }
}

/* ---- Ending. */

static void group_free(node_core *core, node_group *group) {
    map_remove(&core->groups, group->key);
    if (group->ticket != 0) map_remove(&core->groups_by_ticket, group->ticket);
    for (list *at; (at = list_pop_front(&group->waits)) != NULL;) free(container_of(at, group_wait, place));
    free(group);
}

static void end_group(node_core *core, node_group *group) {
    node_actors_evict(&core->actors, group->key, NODE_GROUP_GONE);
    scheduler_group_remove(core->scheduler, group->key);
    answer_all(core, group, MR_NOT_FOUND);
    group_free(core, group);
}

void node_groups_end_program(node_core *core, uint32_t program) {
    map_slot slot;
    for (size_t at = 0; (at = map_next(&core->groups, at, &slot)) != 0;) {
        node_group *group = slot.value;
        if (group->program != program || (group->detached && group->ticket == 0)) continue;
        end_group(core, group);
        at = 0; /* the map has changed */
    }
}

void node_groups_fini(node_core *core) {
    map_slot slot;
    while (map_next(&core->groups, 0, &slot) != 0) group_free(core, slot.value);
    map_fini(&core->groups);
    map_fini(&core->groups_by_ticket);
}

/* ---- Requests. */

mr_status node_handle_group(node_core *core, node_member *member, reader *reader, const call_request *request) {
    if (request->method == NODE_GROUP_CREATE) return create(core, member, reader, request->token);
    mr_placement_group id = {{reader_u64(reader), reader_u64(reader)}};
    node_group *group = reader->failed ? NULL : map_get(&core->groups, wire_group_key(id));
    if (group == NULL)
        return error_set(MR_NOT_FOUND, "unknown placement group %llx: it was removed, or never created",
                         (unsigned long long)wire_group_key(id));
    if (request->method == NODE_GROUP_WAIT) return wait_for(core, group, request->token);
    if (group->maker != member->process) node_tell(core, group->maker, CLIENT_GROUP_GONE, group->key);
    end_group(core, group);
    node_answer(core, request->token, (span){0});
    return MR_OK;
}

/* ---- Showing. */

mr_arg node_group_rows(node_core *core, report *report) {
    static const char *const strategies[] = {[MR_PACK] = "PACK",
                                             [MR_SPREAD] = "SPREAD",
                                             [MR_STRICT_PACK] = "STRICT_PACK",
                                             [MR_STRICT_SPREAD] = "STRICT_SPREAD"};
    report_list rows = {.limit = GROUPS_SHOWN};
    map_slot slot;
    for (size_t at = 0; (at = map_next(&core->groups, at, &slot)) != 0;) {
        const node_group *group = slot.value;
        report_list bundles = {0};
        for (uint32_t i = 0; i < group->count; i++) {
            char text[RESOURCES_TEXT_MAX];
            resources_text(&group->bundles[i], text, sizeof text);
            report_add(report, &bundles, report_copy(report, span_of(text, strlen(text))));
        }
        if (report_wants(&rows))
            report_add(
                report, &rows,
                REPORT_MAP(
                    report, {"id", report_text(report, "g%u:%u", (uint32_t)(group->key >> 32), (uint32_t)group->key)},
                    {"handle", report_text(report, "%016" PRIx64 "%016" PRIx64, group->id.word[0], group->id.word[1])},
                    {"name", report_text(report, "%s", group->name)},
                    {"state", mr_str(group->ticket == 0 ? "placed" : "pending")},
                    {"strategy", mr_str(strategies[group->strategy])}, {"bundles", report_list_arg(&bundles)}));
    }
    return report_list_arg(&rows);
}
