/* call.c — see call.h: what a body can do. */
#include "runtime/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/context.h"

mr_status call_show_args(mr_call *call, shelf *shelf) {
    void *memory;
    MR_TRY(cargo_receive(shelf, call->args));
    if (call->args->cargo == NULL) return MR_OK;
    MR_TRY(alloc_try((call->args->count + 1) * sizeof *call->entries, &memory));
    call->entries = memory;
    for (uint32_t i = 0; i < call->args->count; i++) {
        mr_status status = cargo_show(call->args, i, true, &call->entries[i]);
        if (status == MR_OK) continue;
        while (i-- > 0) cargo_hide(call->args, i);
        free(call->entries);
        call->entries = NULL;
        return status;
    }
    return MR_OK;
}

void call_hide_args(mr_call *call) {
    for (uint32_t i = 0; call->entries != NULL && i < call->args->count; i++) cargo_hide(call->args, i);
    free(call->entries);
    call->entries = NULL;
}

mr_status call_open_args(mr_call *call) {
    uint32_t count = call->args->count;
    void *docs, *values;
    MR_TRY(alloc_try((count + 1) * sizeof *call->docs, &docs));
    call->docs = docs;
    MR_TRY(alloc_try((count + 1) * sizeof *call->values, &values));
    call->values = values;
    for (uint32_t i = 0; i < count; i++) {
        bundle_entry entry = call->entries != NULL ? call->entries[i] : bundle_value(call->args, i);
        mr_status status = bundle_entry_open(&entry, &call->docs[i], &call->values[i]);
        if (status != MR_OK) return error_wrap(status, "argument %u", i);
    }
    return MR_OK;
}

/* A document that was never opened is zero and closes as well. */
void call_fini(mr_call *call) {
    for (uint32_t i = 0; call->docs != NULL && i < call->args->count; i++) value_close(&call->docs[i]);
    call_hide_args(call);
    free(call->docs);
    free(call->values);
    free(call->message);
    free(call->detail);
    bundle_unref(call->args);
    bundle_unref(call->result);
    failure_unref(call->failed);
}

mr_context *mr_call_context(mr_call *call) { return call->mr; }

const char *mr_call_name(const mr_call *call) { return call->name; }

size_t mr_arg_count(const mr_call *call) { return call->args->count; }

mr_status mr_arg_value(mr_call *call, size_t index, mr_value *out) {
    if (index >= call->args->count)
        return error_set(MR_INVALID, "%s was called with %u arguments; argument %zu was asked for", call->name,
                         call->args->count, index);
    *out = call->values[index];
    return MR_OK;
}

static mr_status named(mr_status status, const mr_call *call, size_t index) {
    return status == MR_OK ? MR_OK : error_wrap(status, "argument %zu of %s", index, call->name);
}

mr_status mr_arg_int(mr_call *call, size_t index, int64_t *out) {
    mr_value value;
    MR_TRY(mr_arg_value(call, index, &value));
    return named(mr_value_int(&value, out), call, index);
}

mr_status mr_arg_float(mr_call *call, size_t index, double *out) {
    mr_value value;
    MR_TRY(mr_arg_value(call, index, &value));
    return named(mr_value_float(&value, out), call, index);
}

mr_status mr_arg_str(mr_call *call, size_t index, mr_span *out) {
    mr_value value;
    MR_TRY(mr_arg_value(call, index, &value));
    return named(mr_value_str(&value, out), call, index);
}

mr_status mr_arg_tensor(mr_call *call, size_t index, mr_tensor *out) {
    mr_value value;
    MR_TRY(mr_arg_value(call, index, &value));
    return named(mr_value_tensor(&value, out), call, index);
}

mr_status mr_arg_actor(mr_call *call, size_t index, mr_actor *out) {
    mr_value value;
    MR_TRY(mr_arg_value(call, index, &value));
    return named(mr_value_actor(&value, out), call, index);
}

mr_status mr_return(mr_call *call, mr_arg value) {
    if (value.kind == MR_KIND_REF) return error_set(MR_INVALID, "%s returns a future: return its value", call->name);
    bundle *result, *before = call->result;
    cargo_packer packer = call->mr != NULL ? context_packer(call->mr) : (cargo_packer){0};
    packer.leaves = true;
    MR_TRY(cargo_pack(&packer, &(bundle_item){.arg = &value}, 1, &result));
    call->result = result;
    if (packer.lock != NULL) packer.lock(packer.context);
    bundle_unref(before);
    if (packer.lock != NULL) packer.unlock(packer.context);
    return MR_OK;
}

mr_status mr_fail(mr_call *call, const char *format, ...) {
    char *message;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&message, format, arguments);
    va_end(arguments);
    if (length < 0) return MR_NOMEM;
    free(call->message);
    call->message = message;
    return error_set(MR_TASK_FAILED, "%s", message);
}

mr_status mr_fail_with(mr_call *call, mr_span detail, const char *message) {
    free(call->detail);
    call->detail = NULL;
    call->detail_size = 0;
    if (detail.size > 0 && detail.size <= MR_DETAIL_MAX) {
        MR_TRY(alloc_try(detail.size, &call->detail));
        memcpy(call->detail, detail.data, detail.size);
        call->detail_size = detail.size;
    }
    return mr_fail(call, "%s", message);
}

mr_status mr_set_self(mr_call *call, void *self, void (*destroy)(void *)) {
    if (call->self == NULL) return error_set(MR_INVALID, "%s is no actor: it has no self", call->name);
    if (call->self->destroy != NULL) call->self->destroy(call->self->state);
    *call->self = (call_self){self, destroy};
    return self == NULL ? error_set(MR_NOMEM, "%s has no memory for its state", call->name) : MR_OK;
}

void *mr_self(mr_call *call) { return call->self == NULL ? NULL : call->self->state; }
