/* gathering.c — see gathering.h. */
#include "train/gathering.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/failure.h"

/* Of an error that says "… (worker 2)": that, with the space before it. */
static mr_span whose(const mr_error *error) {
    const char *text = error->message.data, *from = memmem(text, error->message.size, " (worker ", 9);
    const char *end = from == NULL ? NULL : memchr(from, ')', error->message.size - (size_t)(from - text));
    return end == NULL ? (mr_span){"", 0} : (mr_span){from, (size_t)(end + 1 - from)};
}

void gathering_tell(const mr_value *value, const char *what, char out[GATHERING_TOLD_MAX]) {
    mr_error error = {.code = MR_TASK_FAILED};
    mr_span name = {"", 0};
    for (size_t depth = 0; mr_value_error(value, depth, &error) == MR_OK; depth++)
        if (name.size == 0) name = whose(&error);
    snprintf(out, GATHERING_TOLD_MAX, "%s%.*s: %.*s", what, (int)name.size, (const char *)name.data,
             (int)error.message.size, (const char *)error.message.data);
}

void gathering_tell_of(const mr_value *value, const char *method, size_t worker, char out[GATHERING_TOLD_MAX]) {
    char what[64];
    snprintf(what, sizeof what, "%s of worker %zu", method, worker);
    gathering_tell(value, what, out);
}

mr_status gathering_raise(const mr_value *value, const char *what) {
    char text[GATHERING_TOLD_MAX];
    mr_error error = {.code = MR_TASK_FAILED};
    (void)!mr_value_error(value, 0, &error);
    gathering_tell(value, what, text);
    return error_set(error.code, "%s", text);
}

static mr_status make_room(gathering *out, size_t all) {
    size_t each = sizeof *out->sources + sizeof *out->loans + sizeof *out->weights + 2 * sizeof *out->ids;
    void *memory;
    MR_TRY(alloc_try((all + 1) * each, &memory));
    out->sources = memory;
    out->loans = (void *)(out->sources + all);
    out->weights = (void *)(out->loans + all);
    out->ids = (void *)(out->weights + all);
    out->from = out->ids + all;
    out->all = all;
    return MR_OK;
}

static mr_status add(mr_call *call, gathering *out, size_t worker, const mr_value *value) {
    weights_source *source = &out->sources[out->count];
    loan *loan = &out->loans[out->count];
    *source = (weights_source){.root = *value};
    *loan = (struct loan){0};
    if (loan_is_one(value)) {
        mr_status status = loan_open(mr_call_context(call), value, loan, &source->root);
        if (status != MR_OK) return error_wrap(status, "the shared model of worker %zu", worker);
        source->loan = loan;
    }
    out->from[worker] = out->count;
    out->ids[out->count++] = worker;
    return MR_OK;
}

static mr_status add_all(mr_call *call, size_t first, bool skips_dead, gathering *out) {
    for (size_t w = 0; w < out->all; w++) {
        mr_value value;
        mr_error error;
        MR_TRY(mr_arg_value(call, first + w, &value));
        if (mr_value_kind(&value) != MR_KIND_ERROR) {
            mr_status status = add(call, out, w, &value); /* who has lent his model may have died since */
            if (status != MR_OK && !(skips_dead && failure_is_death(status))) return status;
            if (status != MR_OK) out->from[w] = SIZE_MAX;
            continue;
        }
        MR_TRY(mr_value_error(&value, 0, &error));
        if (!skips_dead || !failure_is_death(error.code)) return gathering_raise(&value, "get_weights");
        out->from[w] = SIZE_MAX;
    }
    if (out->count > 0) return MR_OK;
    return error_set(MR_ACTOR_DIED, "cannot sync: all %zu workers have died", out->all);
}

mr_status gathering_open(mr_call *call, size_t first, bool skips_dead, gathering *out) {
    gathering made = {0};
    MR_TRY(make_room(&made, mr_arg_count(call) - first));
    mr_status status = add_all(call, first, skips_dead, &made);
    if (status != MR_OK) gathering_close(&made);
    if (status == MR_OK) *out = made;
    return status;
}

void gathering_close(gathering *gathering) {
    for (size_t i = 0; i < gathering->count; i++) loan_close(&gathering->loans[i]);
    free(gathering->sources);
    *gathering = (struct gathering){0};
}

mr_status gathering_begin(gathering *gathering) {
    for (size_t i = 0; i < gathering->count; i++) {
        mr_status status = gathering->sources[i].loan == NULL ? MR_OK : loan_begin(&gathering->loans[i]);
        if (status == MR_OK) continue;
        gathering_end(gathering, false);
        return error_wrap(status, "worker %zu", gathering->ids[i]);
    }
    return MR_OK;
}

mr_status gathering_check(const gathering *gathering) {
    for (size_t i = 0; i < gathering->count; i++) {
        mr_status status = gathering->sources[i].loan == NULL ? MR_OK : loan_check(&gathering->loans[i]);
        if (status != MR_OK) return error_wrap(status, "worker %zu", gathering->ids[i]);
    }
    return MR_OK;
}

void gathering_end(gathering *gathering, bool written) {
    for (size_t i = 0; i < gathering->count; i++)
        if (gathering->sources[i].loan != NULL) loan_end(&gathering->loans[i], written);
}
