/* node_placement.c — see node_manager.h. Placement groups: their creators and waiters; the scheduler reserves their
 * resources.
 *
 *   NODE_GROUP_CREATE ──► waits its turn ──► placed: NODE_GROUP_WAIT is answered ──► removed, or its program ended
 *
 * The creator of a group that is placed at once learns it from the answer, and is notified when another process removes
 * the group (CLIENT_GROUP_GONE). Workers in a removed group end with that cause. A detached and placed group outlives
 * its program. Tested by tests/placement_test.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "miniray/placement.h"
#include "runtime/common/report.h"
#include "runtime/node/node_internal.h"

enum { BUNDLES_MAX = 1024, GROUPS_SHOWN = 10 * 1000 };

typedef struct node_placement {
    mr_placement_group id;
    uint64_t key;   /* wire_group_key of `id` */
    uint64_t maker; /* process that created the group */
    uint32_t program;
    uint64_t ticket; /* of the placement request; 0: placed */
    char name[WIRE_NAME_MAX + 1];
    mr_placement_strategy strategy;
    bool detached; /* outlives its job once placed */
    list waits;    /* of group_wait */
    uint32_t count;
    resources bundles[];
} node_placement;

typedef struct group_wait {
    list place;
    rpc_call_token token;
} group_wait;

/* ---- Creation. */

static mr_status read_group(reader *reader, uint32_t count, node_placement **out) {
    node_placement *placement;
    MR_TRY(alloc_try(sizeof(node_placement) + count * sizeof(resources), &placement));
    placement->count = count;
    list_init(&placement->waits);
    for (uint32_t i = 0; i < count; i++) {
        mr_status status = resources_decode(reader, &placement->bundles[i]);
        if (status == MR_OK && (placement->bundles[i].group != 0 || placement->bundles[i].count == 0))
            status = error_set(MR_INVALID, "bundle %u is empty, or belongs to another placement group", i + 1);
        if (status == MR_OK) continue;
        free(placement);
        return status;
    }
    *out = placement;
    return MR_OK;
}

static bool is_apart(const node_placement *placement) { return placement->strategy == MR_STRICT_SPREAD; }

static void warn_if_impossible(node_core *core, const node_placement *placement) {
    static const char more[] = "`miniray list groups` shows it";
    resources sum = {0};
    for (uint32_t i = 0; i < placement->count; i++)
        if (resources_add(&sum, &placement->bundles[i]) != MR_OK) error_clear();
    if (is_apart(placement) && placement->count > 1)
        node_warn_impossible(core, placement->program, "a placement group with bundles on different machines", &sum,
                             "remove it, or let the bundles share a machine (SPREAD, PACK)", more);
    else if (scheduler_impossible(core->scheduler, &sum))
        node_warn_impossible(core, placement->program, "a placement group", &sum, NULL, more);
}

static mr_status create(node_core *core, node_member *member, reader *reader, rpc_call_token token) {
    mr_placement_group id = {{reader_u64(reader), reader_u64(reader)}};
    uint8_t strategy = reader_u8(reader);
    bool detached = reader_u8(reader) != 0;
    span name = wire_get_name(reader);
    uint32_t count = reader_u32(reader);
    if (reader->failed || strategy > MR_STRICT_SPREAD || count == 0 || count > BUNDLES_MAX || wire_group_key(id) == 0)
        return error_set(MR_INVALID, "malformed placement group from process %d: strategy %u, %u bundles (1 to %d)",
                         member->pid, strategy, count, BUNDLES_MAX);
    node_placement *placement;
    MR_TRY(read_group(reader, count, &placement));
    placement->id = id;
    placement->key = wire_group_key(id);
    placement->maker = member->process;
    placement->program = member->program;
    placement->strategy = (mr_placement_strategy)strategy;
    placement->detached = detached;
    placement->ticket = core->next_ticket++;
    if (name.size > 0) memcpy(placement->name, name.data, name.size);
    scheduler_place place = {
        .client = node_client_of(member->program), .ticket = placement->ticket, .apart = is_apart(placement)};
    mr_status status = node_job_of(core, member->program) == NULL
                           ? error_set(MR_CLOSED, "the driver of job %u has ended", member->program)
                           : scheduler_group_add(core->scheduler, placement->key, placement->bundles, count, &place);
    if (status != MR_OK) {
        free(placement);
        return status;
    }
    map_put(&core->groups, placement->key, placement);
    map_put(&core->groups_by_ticket, placement->ticket, placement);
    warn_if_impossible(core, placement);
    node_decide(core);
    uint8_t placed = placement->ticket == 0; /* the creator needs no NODE_GROUP_WAIT */
    return node_answer(core, token, span_of(&placed, 1));
}

/* ---- Waiting for placement. */

static void answer_all(node_core *core, node_placement *placement, mr_status status) {
    for (list *at; (at = list_pop_front(&placement->waits)) != NULL;) {
        group_wait *wait = container_of(at, group_wait, place);
        if (status == MR_OK)
            node_answer(core, wait->token, (span){0});
        else
            node_refuse(core, wait->token, status, NODE_GROUP_GONE);
        free(wait);
    }
}

void node_group_placed(node_core *core, uint64_t ticket) {
    node_placement *placement = map_remove(&core->groups_by_ticket, ticket);
    if (placement == NULL) return;
    placement->ticket = 0;
    answer_all(core, placement, MR_OK);
}

static mr_status wait_for(node_core *core, node_placement *placement, rpc_call_token token) {
    if (placement->ticket == 0) return node_answer(core, token, (span){0});
    group_wait *wait = XNEW(group_wait, .token = token);
    list_push_back(&placement->waits, &wait->place);
    return MR_OK;
}

void node_group_cancel(node_core *core, rpc_call_token token) {
    map_for_each (slot, &core->groups_by_ticket) {
        list_for_each_item (wait, &((node_placement *)slot.value)->waits, group_wait, place) {
            if (wait->token.link.v != token.link.v || wait->token.number != token.number) continue;
            list_remove(&wait->place);
            free(wait);
            return;
        }
    }
}

/* ---- Removal. */

static void group_free(node_core *core, node_placement *placement) {
    map_remove(&core->groups, placement->key);
    if (placement->ticket != 0) map_remove(&core->groups_by_ticket, placement->ticket);
    for (list *at; (at = list_pop_front(&placement->waits)) != NULL;) free(container_of(at, group_wait, place));
    free(placement);
}

static void end_group(node_core *core, node_placement *placement) {
    node_actors_evict(&core->actors, placement->key, NODE_GROUP_GONE);
    scheduler_group_remove(core->scheduler, placement->key);
    answer_all(core, placement, MR_NOT_FOUND);
    group_free(core, placement);
}

void node_groups_end_program(node_core *core, uint32_t program) {
    map_for_each (slot, &core->groups) {
        node_placement *placement = slot.value;
        if (placement->program != program || (placement->detached && placement->ticket == 0)) continue;
        end_group(core, placement);
        slot.next = 0; /* the map has changed: begin again */
    }
}

void node_groups_fini(node_core *core) {
    map_entry entry;
    while (map_next(&core->groups, 0, &entry) != 0) group_free(core, entry.value);
    map_fini(&core->groups);
    map_fini(&core->groups_by_ticket);
}

/* ---- Requests. */

mr_status node_handle_group(node_core *core, node_member *member, reader *reader, const rpc_call_request *request) {
    if (request->method == NODE_GROUP_CREATE) return create(core, member, reader, request->token);
    mr_placement_group id = {{reader_u64(reader), reader_u64(reader)}};
    node_placement *placement = reader->failed ? NULL : map_get(&core->groups, wire_group_key(id));
    if (placement == NULL)
        return error_set(MR_NOT_FOUND, "unknown placement group %llx: it was removed, or never created",
                         (unsigned long long)wire_group_key(id));
    if (request->method == NODE_GROUP_WAIT) return wait_for(core, placement, request->token);
    if (placement->maker != member->process) node_tell(core, placement->maker, CLIENT_GROUP_GONE, placement->key);
    end_group(core, placement);
    return node_answer(core, request->token, (span){0});
}

/* ---- Reports. */

mr_arg node_group_rows(node_core *core, report *report) {
    static const char *const strategies[] = {[MR_PACK] = "PACK",
                                             [MR_SPREAD] = "SPREAD",
                                             [MR_STRICT_PACK] = "STRICT_PACK",
                                             [MR_STRICT_SPREAD] = "STRICT_SPREAD"};
    report_list rows = {.limit = GROUPS_SHOWN};
    map_for_each (slot, &core->groups) {
        const node_placement *placement = slot.value;
        report_list bundles = {0};
        for (uint32_t i = 0; i < placement->count; i++) {
            char text[RESOURCES_TEXT_MAX];
            resources_text(&placement->bundles[i], text, sizeof text);
            report_add(report, &bundles, report_copy(report, span_of(text, strlen(text))));
        }
        if (report_wants(&rows))
            report_add(
                report, &rows,
                REPORT_MAP(
                    report,
                    {"id", report_text(report, "g%u:%u", (uint32_t)(placement->key >> 32), (uint32_t)placement->key)},
                    {"handle",
                     report_text(report, "%016" PRIx64 "%016" PRIx64, placement->id.word[0], placement->id.word[1])},
                    {"name", report_text(report, "%s", placement->name)},
                    {"state", mr_str(placement->ticket == 0 ? "placed" : "pending")},
                    {"strategy", mr_str(strategies[placement->strategy])}, {"bundles", report_list_arg(&bundles)}));
    }
    return report_list_arg(&rows);
}
