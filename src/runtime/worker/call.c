/* call.c — see call.h: public functions for bodies (arguments, results, failures).
 * Tested by tests/runtime_value_test.c. */
#include "runtime/worker/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/plural.h"
#include "runtime/worker/stream_writer.h"
#include "runtime/worker/worker_internal.h"

mr_status call_take_args(mr_call *call, span bytes, value_pack_spares *spares) {
    MR_TRY(value_pack_open(bytes, &call->args));
    if (call->args.plain && bytes.size <= sizeof call->args_small) {
        memcpy(call->args_small, bytes.data, bytes.size);
        call->args.bytes = call->args_small;
        return MR_OK;
    }
    call->args.count = 0; /* no arguments until they are copied */
    value_pack *pack;
    MR_TRY(value_pack_spares_room(spares, bytes.size, &pack));
    memcpy(pack->bytes, bytes.data, bytes.size);
    return call_take_pack(call, pack);
}

mr_status call_take_pack(mr_call *call, value_pack *pack) {
    mr_status status = value_pack_check(pack, &call->args);
    if (status != MR_OK)
        value_pack_unref(pack);
    else
        call->args_owner = pack;
    return status;
}

mr_status call_show_args(mr_call *call, objects *objects) {
    if (call->args_owner == NULL) return MR_OK;
    MR_TRY(attachment_receive(objects, call->args_owner));
    if (call->args_owner->attachment == NULL) return MR_OK;
    MR_TRY(alloc_try(call->args.count * sizeof *call->entries, &call->entries));
    for (uint32_t i = 0; i < call->args.count; i++) {
        mr_status status = attachment_show(call->args_owner, i, true, &call->entries[i]);
        if (status == MR_OK) continue;
        while (i-- > 0) attachment_hide(call->args_owner, i);
        free(call->entries);
        call->entries = NULL;
        return status;
    }
    return MR_OK;
}

void call_hide_args(mr_call *call) {
    for (uint32_t i = 0; call->entries != NULL && i < call->args.count; i++) attachment_hide(call->args_owner, i);
    free(call->entries);
    call->entries = NULL;
}

static void close_docs(mr_call *call) {
    for (uint32_t i = 0; i < call->docs_count && i < call->args.count; i++) {
        if (call->docs[i].open) value_close(&call->docs[i].doc);
        call->docs[i].open = false;
    }
}

value_pack *call_give_up_args(mr_call *call) {
    value_pack *owner = call->args_owner;
    if (owner == NULL || owner->attachment == NULL || owner->attachment->ref_count == 0) return NULL;
    if (call->docs != NULL) close_docs(call);
    if (call->entries != NULL) call_hide_args(call);
    call->args.count = 0;
    call->args_owner = NULL;
    return owner;
}

void call_unload(mr_call *call) {
    if (call->docs != NULL) close_docs(call);
    if (call->entries != NULL) call_hide_args(call);
    if (call->docs_count > CALL_DOCS_KEPT) call_forget(call);
    if (call->yield != NULL) stream_writer_close(call);
    for (uint32_t i = 0; call->several != NULL && i < call->returns; i++) value_pack_unref(call->several[i]);
    if (call->args_owner != NULL) value_pack_unref(call->args_owner);
    if (call->result != NULL) value_pack_unref(call->result);
    if (call->several == NULL && call->message == NULL && call->detail == NULL && call->failed == NULL) return;
    free(call->several);
    free(call->message);
    free(call->detail);
    failure_unref(call->failed);
}

void call_forget(mr_call *call) {
    free(call->docs);
    call->docs = NULL;
    call->docs_count = 0;
}

mr_context *mr_call_context(mr_call *call) { return call->mr; }

const char *mr_call_name(const mr_call *call) { return call->name->text; }

mr_span mr_call_code(mr_call *call, void ***kept) {
    *kept = &call->name->kept;
    return (mr_span){call->name->code.data, call->name->code.size};
}

mr_actor mr_call_self(const mr_call *call) { return call->method == WORKER_TASK ? (mr_actor){0} : call->actor; }

size_t mr_arg_count(const mr_call *call) { return call->args.count; }

static mr_status room_for_docs(mr_call *call) {
    uint32_t wanted = call->args.count < CALL_DOCS_KEPT ? CALL_DOCS_KEPT : call->args.count;
    if (call->docs_count >= wanted) return MR_OK;
    MR_ASSERT(call->docs == NULL || call->args.count > call->docs_count);
    call_forget(call); /* no document is open: the room is made for all arguments of a call at once */
    MR_TRY(alloc_try(wanted * sizeof *call->docs, &call->docs));
    call->docs_count = wanted;
    return MR_OK;
}

static mr_status open_argument(mr_call *call, const value_pack_entry *entry, uint32_t index, mr_value *out) {
    MR_TRY(room_for_docs(call));
    call_doc *doc = &call->docs[index];
    if (!doc->open) {
        mr_status status = value_pack_entry_open(entry, &doc->doc, &doc->root);
        if (status != MR_OK) return error_wrap(status, "argument %u of %s", index, call->name->text);
        doc->open = true;
    }
    *out = doc->root;
    return MR_OK;
}

mr_status mr_arg_value(mr_call *call, size_t index, mr_value *out) {
    if (index >= call->args.count)
        return error_set(MR_INVALID, "%s was called with %u argument%s; there is no argument %zu", call->name->text,
                         call->args.count, plural(call->args.count), index);
    value_pack_entry entry =
        call->entries != NULL ? call->entries[index] : value_pack_view_entry(&call->args, (uint32_t)index);
    if (entry.kind == VALUE_PACK_PLAIN && value_read_scalar(entry.bytes, out)) return MR_OK;
    return open_argument(call, &entry, (uint32_t)index, out);
}

static mr_status named(mr_status status, const mr_call *call, size_t index) {
    return status == MR_OK ? MR_OK : error_wrap(status, "argument %zu of %s", index, call->name->text);
}

/* Defines mr_arg_int and its like: mr_arg_value, read as one kind. */
#define ARGUMENT_AS(kind, type)                                       \
    mr_status mr_arg_##kind(mr_call *call, size_t index, type *out) { \
        mr_value value;                                               \
        MR_TRY(mr_arg_value(call, index, &value));                    \
        return named(mr_value_##kind(&value, out), call, index);      \
    }
ARGUMENT_AS(int, int64_t)
ARGUMENT_AS(float, double)
ARGUMENT_AS(str, mr_span)
ARGUMENT_AS(tensor, mr_tensor)
ARGUMENT_AS(ref, mr_ref)
ARGUMENT_AS(actor, mr_actor)

/* ---- Results. */

attachment_packer call_packer(mr_call *call) {
    attachment_packer packer = core_worker_packer(call->worker->worker);
    packer.leaves = true;
    return packer;
}

mr_status call_check_process(const mr_call *call) {
    const core_worker_host *host = call->worker->worker->host;
    return host->check == NULL ? MR_OK : host->check(host->context);
}

static void drop(const attachment_packer *packer, value_pack *pack) {
    if (pack == NULL) return;
    if (packer->lock != NULL) packer->lock(packer->context);
    value_pack_unref(pack);
    if (packer->lock != NULL) packer->unlock(packer->context);
}

static mr_status return_one(mr_call *call, value_pack_item *item) {
    value_pack *result = NULL, *before = call->result;
    call->result_size = item->fill != NULL ? 0 : (uint32_t)value_pack_pack_scalar(item->arg, call->result_small);
    if (call->result_size == 0 && item->fill == NULL)
        call->result_size = (uint32_t)value_pack_pack_small(item, 1, call->result_small, sizeof call->result_small);
    if (call->result_size != 0 && before == NULL) return MR_OK;
    attachment_packer packer = call_packer(call);
    if (call->result_size == 0) MR_TRY(attachment_pack(&packer, item, 1, &result));
    call->result = result;
    drop(&packer, before);
    return MR_OK;
}

static mr_status return_one_of_several(mr_call *call, value_pack_item *item, size_t index) {
    if (call->several == NULL) {
        MR_TRY(alloc_try(call->returns * sizeof *call->several, &call->several));
    }
    attachment_packer packer = call_packer(call);
    value_pack *result, *before = call->several[index];
    MR_TRY(attachment_pack(&packer, item, 1, &result));
    call->several[index] = result;
    drop(&packer, before);
    return MR_OK;
}

size_t mr_return_count(const mr_call *call) { return call->returns; }

static __attribute__((noinline)) mr_status return_item(mr_call *call, size_t index, value_pack_item *item) {
    const char *name = call->name->text;
    if (index >= call->returns)
        return error_set(MR_INVALID, "%s returns %u value%s (num_returns); there is no value %zu", name, call->returns,
                         plural(call->returns), index);
    MR_TRY(call_check_process(call));
    return call->returns == 1 ? return_one(call, item) : return_one_of_several(call, item, index);
}

/* The usual result: the only value, returned once, and a scalar. */
static inline bool return_scalar(mr_call *call, size_t index, const mr_arg *value) {
    if (index != 0 || call->returns != 1 || call->result != NULL) return false;
    call->result_size = (uint32_t)value_pack_pack_scalar(value, call->result_small);
    return call->result_size != 0;
}

mr_status mr_return_at(mr_call *call, size_t index, mr_arg value) {
    if (return_scalar(call, index, &value)) return MR_OK;
    return return_item(call, index, &(value_pack_item){.arg = &value});
}

mr_status mr_return_filled(mr_call *call, size_t index, mr_arg value, mr_fill_fn *fill, void *user) {
    if (fill == NULL) return error_set(MR_INVALID, "mr_return_filled: `fill` is NULL");
    return return_item(call, index, &(value_pack_item){.arg = &value, .fill = &(value_pack_fill){fill, user}});
}

mr_status mr_return_same(mr_call *call, size_t index, size_t as) {
    if (index >= call->returns || as >= call->returns || call->several == NULL || call->several[as] == NULL)
        return error_set(MR_INVALID, "%s has not returned value %zu of %u yet, so value %zu cannot be the same",
                         call->name->text, as, call->returns, index);
    MR_TRY(call_check_process(call));
    attachment_packer packer = call_packer(call);
    if (packer.lock != NULL) packer.lock(packer.context);
    value_pack *before = call->several[index];
    call->several[index] = value_pack_ref(call->several[as]);
    value_pack_unref(before);
    if (packer.lock != NULL) packer.unlock(packer.context);
    return MR_OK;
}

mr_status mr_return(mr_call *call, mr_arg value) { return mr_return_at(call, 0, value); }

static __attribute__((noinline)) mr_status gather_several(mr_call *call) {
    value_pack_item *items;
    MR_TRY(alloc_try(call->returns * sizeof(value_pack_item), &items));
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < call->returns && status == MR_OK; i++) {
        if (call->several == NULL || call->several[i] == NULL)
            status = error_set(MR_INVALID, "%s must return %u value%s (num_returns) and did not return value %u",
                               call->name->text, call->returns, plural(call->returns), i);
        else
            items[i] = attachment_item_of(call->several[i], 0);
    }
    if (status == MR_OK) {
        attachment_packer packer = call_packer(call);
        if (packer.lock != NULL) packer.lock(packer.context);
        status = attachment_repack(packer.objects, items, call->returns, &call->result);
        if (packer.lock != NULL) packer.unlock(packer.context);
    }
    free(items);
    return status;
}

mr_status call_gather(mr_call *call) {
    if (call->returns != 1) return gather_several(call);
    if (call->result_size != 0 || call->result != NULL) return MR_OK;
    mr_arg given = {.kind = MR_KIND_NIL}; /* nothing was returned: nil, or the number of a stream's results */
    if (call->yield != NULL) given = mr_int((int64_t)call->yield->given);
    call->result_size = (uint32_t)value_pack_pack_scalar(&given, call->result_small);
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
    if (call->self == NULL)
        return error_set(MR_INVALID, "mr_set_self: %s is not a method of an actor", call->name->text);
    if (call->self->destroy != NULL) call->self->destroy(call->self->state);
    *call->self = (call_self){self, destroy};
    return self == NULL ? error_set(MR_NOMEM, "mr_set_self: %s has no memory for the actor's state", call->name->text)
                        : MR_OK;
}

void *mr_self(mr_call *call) { return call->self == NULL ? NULL : call->self->state; }
