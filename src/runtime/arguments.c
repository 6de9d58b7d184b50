/* arguments.c — see arguments.h. */
#include "runtime/arguments.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/value.h"
#include "runtime/cargo.h"

/* ---- Futures inside other values are not passed on: nobody would resolve them there. */

static mr_status refuse_inner_futures(const mr_arg *arg, size_t index, int depth) {
    bool container = arg->kind == MR_KIND_LIST || arg->kind == MR_KIND_TUPLE || arg->kind == MR_KIND_MAP;
    if (!container || arg->received || depth > VALUE_DEPTH_MAX) return MR_OK; /* too deep is found when measured */
    size_t count = arg->items.count * (arg->kind == MR_KIND_MAP ? 2 : 1);
    for (size_t i = 0; i < count; i++) {
        if (arg->items.first[i].kind == MR_KIND_REF)
            return error_set(MR_INVALID,
                             "argument %zu holds a future inside a %s: pass futures as arguments themselves", index,
                             mr_kind_name(arg->kind));
        MR_TRY(refuse_inner_futures(&arg->items.first[i], index, depth + 1));
    }
    return MR_OK;
}

/* ---- Settling. */

static void finish(arguments *arguments) {
    if (arguments->failed != NULL) return;
    size_t count = arguments->given->count;
    bundle_item *items = xcalloc(count, sizeof *items);
    for (uint32_t i = 0; i < count; i++) items[i] = (bundle_item){.entry = bundle_value(arguments->given, i)};
    for (uint32_t i = 0; i < arguments->future_count; i++) {
        arguments_future *future = &arguments->futures[i];
        items[future->index] = (bundle_item){.entry = bundle_value(future->object->values, future->object->index)};
    }
    mr_status status = cargo_repack(arguments->objects->shelf, items, count, &arguments->values);
    if (status != MR_OK) arguments->failed = failure_create(status, mr_last_error(), "", NULL);
    free(items);
}

/* Takes the outcome of one future in. */
static void take(arguments_future *future) {
    arguments *arguments = future->arguments;
    object *object = future->object;
    object->seen = true; /* whoever gets the result of this call hears of it */
    arguments->left--;
    if (object->state == OBJECT_FAILED && arguments->failed == NULL)
        arguments->failed =
            failure_create(object->failure->code, "an argument failed", "", failure_ref(object->failure));
    if (arguments->left == 0) finish(arguments);
}

static void arrived(object_waiter *waiter, object *object) {
    arguments_future *future = container_of(waiter, arguments_future, waiter);
    arguments *arguments = future->arguments;
    bool was_settled = arguments_are_settled(arguments);
    take(future);
    if (!was_settled && arguments_are_settled(arguments)) arguments->settled(arguments);
}

/* ---- Beginning. */

static mr_status add_future(arguments *arguments, mr_ref ref, uint32_t index) {
    object *object = object_find(arguments->objects, ref);
    if (object == NULL)
        return error_set(MR_INVALID, "argument %u is a future that this process does not have (any more)", index);
    arguments_future *future = &arguments->futures[arguments->future_count++];
    *future =
        (arguments_future){.waiter.fn = arrived, .arguments = arguments, .object = object_hold(object), .index = index};
    list_init(&future->waiter.place);
    arguments->left++;
    return MR_OK;
}

static mr_status collect(arguments *arguments, const mr_arg *args, size_t count) {
    size_t futures = 0;
    for (size_t i = 0; i < count; i++) {
        futures += args[i].kind == MR_KIND_REF && !args[i].received;
        MR_TRY(refuse_inner_futures(&args[i], i, 0));
    }
    static const mr_arg nil = {.kind = MR_KIND_NIL};
    void *items, *memory;
    MR_TRY(alloc_try((count + 1) * sizeof(bundle_item), &items));
    for (size_t i = 0; i < count; i++)
        ((bundle_item *)items)[i].arg = args[i].kind == MR_KIND_REF && !args[i].received ? &nil : &args[i];
    cargo_packer packer = {.shelf = arguments->objects->shelf, .may_wait = true, .leaves = true};
    mr_status status = cargo_pack(&packer, items, count, futures == 0 ? &arguments->values : &arguments->given);
    free(items);
    if (status != MR_OK || futures == 0) return status;
    MR_TRY(alloc_try(futures * sizeof *arguments->futures, &memory));
    arguments->futures = memory;
    for (size_t i = 0; i < count; i++)
        if (args[i].kind == MR_KIND_REF && !args[i].received) MR_TRY(add_future(arguments, args[i].ref, (uint32_t)i));
    return MR_OK;
}

mr_status arguments_init(arguments *arguments, objects *objects, const mr_arg *args, size_t count,
                         arguments_settled_fn *settled) {
    *arguments = (struct arguments){.objects = objects, .settled = settled};
    mr_status status = collect(arguments, args, count);
    if (status != MR_OK) {
        arguments_fini(arguments);
        return status;
    }
    for (uint32_t i = 0; i < arguments->future_count; i++) {
        arguments_future *future = &arguments->futures[i];
        if (future->object->state == OBJECT_PENDING)
            object_wait(future->object, &future->waiter);
        else
            take(future);
    }
    return MR_OK;
}

void arguments_fini(arguments *arguments) {
    for (uint32_t i = 0; i < arguments->future_count; i++) {
        object_unwait(&arguments->futures[i].waiter);
        object_drop(arguments->objects, arguments->futures[i].object);
    }
    free(arguments->futures);
    bundle_unref(arguments->values);
    bundle_unref(arguments->given);
    failure_unref(arguments->failed);
    memset(arguments, 0, sizeof *arguments);
}

bool arguments_wait_by(const object_waiter *waiter) { return waiter->fn == arrived; }
