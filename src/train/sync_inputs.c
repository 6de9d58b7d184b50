/* sync_inputs.c — see sync_inputs.h. */
#include "train/sync_inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/refs/failure.h"

/* "worker 2" of the message "worker 2 failed in get_weights" or "worker 2 died"; empty for another message. */
static mr_span whose(const mr_error *error) {
    static const char noun[] = "worker ", failed[] = " failed in ", died[] = " died";
    const char *text = error->message.data, *end = memmem(text, error->message.size, failed, sizeof failed - 1);
    if (end == NULL) end = memmem(text, error->message.size, died, sizeof died - 1);
    bool is_named = end != NULL && (size_t)(end - text) > sizeof noun - 1 && memcmp(text, noun, sizeof noun - 1) == 0;
    return is_named ? (mr_span){text, (size_t)(end - text)} : (mr_span){"", 0};
}

void sync_inputs_tell(const mr_value *value, const char *what, char out[SYNC_INPUTS_TOLD_MAX]) {
    mr_error error = {.code = MR_TASK_FAILED};
    mr_span name = {"", 0};
    for (size_t depth = 0; mr_value_error(value, depth, &error) == MR_OK; depth++)
        if (name.size == 0) name = whose(&error);
    if (what != NULL) name = (mr_span){what, strlen(what)};
    snprintf(out, SYNC_INPUTS_TOLD_MAX, "%.*s%s%.*s", (int)name.size, (const char *)name.data,
             name.size > 0 ? ": " : "", (int)error.message.size, (const char *)error.message.data);
}

mr_status sync_inputs_raise(const mr_value *value, const char *what) {
    char text[SYNC_INPUTS_TOLD_MAX];
    mr_error error = {.code = MR_TASK_FAILED};
    (void)!mr_value_error(value, 0, &error);
    sync_inputs_tell(value, what, text);
    return error_set(error.code, "%s", text);
}

static mr_status make_room(sync_inputs *out, size_t all) {
    size_t each = sizeof *out->sources + sizeof *out->accesses + sizeof *out->weights + 2 * sizeof *out->ids;
    MR_TRY(alloc_try((all + 1) * each, &out->sources));
    out->accesses = (void *)(out->sources + all);
    out->weights = (void *)(out->accesses + all);
    out->ids = (void *)(out->weights + all);
    out->from = out->ids + all;
    out->all = all;
    return MR_OK;
}

static mr_status add(mr_call *call, sync_inputs *out, size_t worker, const mr_value *value) {
    weight_tree_source *source = &out->sources[out->count];
    model_access *access = &out->accesses[out->count];
    *source = (weight_tree_source){.root = *value};
    *access = (struct model_access){0};
    if (shared_model_is_marked(value, SHARED_MODEL_LOAN_ITEMS)) {
        mr_status status = model_access_open(mr_call_context(call), value, access, &source->root);
        if (status != MR_OK) return error_wrap(status, "the shared model of worker %zu", worker);
        source->access = access;
    }
    out->from[worker] = out->count;
    out->ids[out->count++] = worker;
    return MR_OK;
}

static mr_status add_all(mr_call *call, size_t first, bool skips_dead, sync_inputs *out) {
    for (size_t w = 0; w < out->all; w++) {
        mr_value value;
        mr_error error;
        MR_TRY(mr_arg_value(call, first + w, &value));
        if (mr_value_kind(&value) != MR_KIND_ERROR) {
            mr_status status = add(call, out, w, &value); /* fails if a worker with a shared model has died */
            if (status != MR_OK && !(skips_dead && failure_is_death(status))) return status;
            if (status != MR_OK) out->from[w] = SIZE_MAX;
            continue;
        }
        MR_TRY(mr_value_error(&value, 0, &error));
        if (!skips_dead || !failure_is_death(error.code)) return sync_inputs_raise(&value, "get_weights");
        out->from[w] = SIZE_MAX;
    }
    if (out->count > 0) return MR_OK;
    return error_set(MR_ACTOR_DIED, "cannot sync: no worker is alive (0 of %zu)", out->all);
}

mr_status sync_inputs_open(mr_call *call, size_t first, bool skips_dead, sync_inputs *out) {
    sync_inputs made = {0};
    MR_TRY(make_room(&made, mr_arg_count(call) - first));
    mr_status status = add_all(call, first, skips_dead, &made);
    if (status != MR_OK) sync_inputs_close(&made);
    if (status == MR_OK) *out = made;
    return status;
}

void sync_inputs_close(sync_inputs *inputs) {
    for (size_t i = 0; i < inputs->count; i++) model_access_close(&inputs->accesses[i]);
    free(inputs->sources);
    *inputs = (struct sync_inputs){0};
}

mr_status sync_inputs_begin(sync_inputs *inputs) {
    for (size_t i = 0; i < inputs->count; i++) {
        mr_status status = inputs->sources[i].access == NULL ? MR_OK : model_access_begin(&inputs->accesses[i]);
        if (status == MR_OK) continue;
        sync_inputs_end(inputs, false);
        return error_wrap(status, "worker %zu", inputs->ids[i]);
    }
    return MR_OK;
}

mr_status sync_inputs_check(const sync_inputs *inputs) {
    for (size_t i = 0; i < inputs->count; i++) {
        mr_status status = inputs->sources[i].access == NULL ? MR_OK : model_access_check(&inputs->accesses[i]);
        if (status != MR_OK) return error_wrap(status, "worker %zu", inputs->ids[i]);
    }
    return MR_OK;
}

void sync_inputs_end(sync_inputs *inputs, bool written) {
    for (size_t i = 0; i < inputs->count; i++)
        if (inputs->sources[i].access != NULL) model_access_end(&inputs->accesses[i], written);
}
