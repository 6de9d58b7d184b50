/* placement_api.c — public functions of miniray/placement.h: requests about placement groups to the node
 * (node_placement.c). */
#include "miniray/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/option_struct.h"
#include "runtime/process/context.h"
#include "runtime/process/submit.h"

enum { FIELDS_MAX = 96 * 1024 };

static mr_status check(const mr_placement_group_options *options) {
    if (options == NULL || options->bundles == NULL || options->count == 0 || options->count > MR_BUNDLES_MAX)
        return error_set(MR_INVALID, "count is %zu, bundles is %sNULL: a placement group has 1 to %d bundles",
                         options == NULL ? 0 : options->count,
                         options == NULL || options->bundles == NULL ? "" : "not ", MR_BUNDLES_MAX);
    if (options->strategy < MR_PACK || options->strategy > MR_STRICT_SPREAD)
        return error_set(MR_INVALID, "strategy is %d: MR_PACK (0) to MR_STRICT_SPREAD (3)", (int)options->strategy);
    return options->name == NULL || options->name[0] == '\0' ? MR_OK
                                                             : submit_check_name("placement group", options->name);
}

static mr_status write_bundles(const mr_placement_group_options *options, writer *writer) {
    resources sum = {0};
    for (size_t i = 0; i < options->count; i++) {
        resources bundle = {0};
        if (options->bundles[i] == NULL) return error_set(MR_INVALID, "bundle %zu is NULL", i + 1);
        mr_status status = resources_parse(&bundle, options->bundles[i]);
        if (status != MR_OK) return error_wrap(status, "bundle %zu is \"%.80s\"", i + 1, options->bundles[i]);
        if (bundle.count == 0) return error_set(MR_INVALID, "bundle %zu is empty: it names no resources", i + 1);
        MR_TRY(resources_add(&sum, &bundle));
        resources_encode(&bundle, writer);
    }
    return writer->failed ? error_set(MR_TOO_LARGE, "%zu bundles take more than the %d bytes of a request",
                                      options->count, FIELDS_MAX)
                          : MR_OK;
}

static mr_status write_group(const mr_placement_group_options *options, mr_placement_group id, writer *writer) {
    const char *name = options->name == NULL ? "" : options->name;
    writer_u64(writer, id.word[0]);
    writer_u64(writer, id.word[1]);
    writer_u8(writer, (uint8_t)options->strategy);
    writer_u8(writer, options->detached != 0);
    writer_span32(writer, span_of(name, strlen(name)));
    writer_u32(writer, (uint32_t)options->count);
    return write_bundles(options, writer);
}

mr_status mr_placement_group_create(mr_context *mr, const mr_placement_group_options *options,
                                    mr_placement_group *out) {
    mr_placement_group_options copy;
    MR_TRY(context_check(mr, out));
    OPTION_STRUCT_READ(mr_placement_group_options, detached, options, copy);
    void *fields = NULL;
    MR_TRY(check(options));
    MR_TRY(alloc_try_resize(&fields, FIELDS_MAX)); /* not zeroed */
    writer writer = writer_of(fields, FIELDS_MAX);
    context_lock(mr);
    mr_placement_group id = {{mr->worker.objects.process, ++mr->placements}};
    mr_status status = write_group(options, id, &writer);
    if (status == MR_OK) placement_cache_create(&mr->worker.cache, id, span_of(fields, writer_size(&writer)));
    context_unlock(mr);
    free(fields);
    if (status == MR_OK) *out = id;
    return status;
}

static mr_status wait_step(mr_context *mr, void *group, int64_t timeout_us) {
    context_look(mr); /* receives the node's answer about the group */
    if (placement_cache_has(&mr->worker.cache, *(const mr_placement_group *)group)) return MR_OK;
    return context_call_node_answering(mr, NODE_GROUP_WAIT, span_of(group, sizeof(mr_placement_group)), timeout_us);
}

mr_status mr_placement_group_wait(mr_context *mr, mr_placement_group group, int64_t timeout_us) {
    MR_TRY(context_check(mr, mr));
    context_lock(mr);
    mr_status status = context_done(mr, wait_step(mr, &group, timeout_us));
    if (status == CONTEXT_INTERRUPTED) status = context_resume(mr, wait_step, &group, timeout_us);
    if (status == MR_TIMEOUT)
        error_set(status,
                  "timed out after %.1f s waiting for placement group g%u:%u; `miniray list groups` shows what it asks "
                  "for, `miniray status` what is free",
                  (double)timeout_us / 1e6, (unsigned)group.word[0], (unsigned)group.word[1]);
    return status;
}

void mr_placement_group_remove(mr_context *mr, mr_placement_group group) {
    if (!context_is_ours(mr)) return;
    context_lock(mr);
    core_worker_tell_node(&mr->worker, NODE_GROUP_REMOVE, span_of(&group, sizeof group));
    placement_cache_forget(&mr->worker.cache, wire_group_key(group));
    tasks_reclaim_group(&mr->worker.tasks, wire_group_key(group)); /* later requests ask the node, and are refused */
    context_unlock(mr);
}
