/* arguments.c — see arguments.h. */
#include "runtime/client/arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/value.h"
#include "runtime/refs/attachment.h"

enum { NAMED_MAX = 80 }; /* size of a text that names an argument */

/* ---- Settling of futures. */

static bool pack_small(arguments *arguments, const value_pack_item *items, size_t count) {
    arguments->small_size = (uint32_t)value_pack_pack_small(items, count, arguments->small, sizeof arguments->small);
    return arguments->small_size != 0;
}

static value_pack_item item_of(const arguments_future *future) {
    return future->error != NULL ? attachment_item_of(future->error, 0) : attachment_item_of_object(future->object);
}

static mr_status assemble(arguments *arguments) {
    const arguments_futures *futures = arguments->futures;
    size_t count = futures->given->count;
    value_pack_item *items;
    MR_TRY(alloc_try(count * sizeof(value_pack_item), &items));
    for (uint32_t i = 0; i < count; i++) items[i] = attachment_item_of(futures->given, i);
    for (uint32_t i = 0; i < futures->count; i++) items[futures->items[i].index] = item_of(&futures->items[i]);
    mr_status status = MR_OK;
    if (!pack_small(arguments, items, count))
        status = attachment_repack(arguments->objects, items, count, &arguments->values);
    free(items);
    return status;
}

/* Whether a failed future becomes an argument, as an error value. */
static bool as_value(arguments_future *future) {
    const failure *failure = future->object->failure;
    arguments_errors errors = future->arguments->futures->errors;
    return (errors == ARGUMENTS_TAKE || (errors == ARGUMENTS_TAKE_DEATHS && failure_is_death(failure->code))) &&
           failure_pack(failure, &future->error) == MR_OK;
}

static const char by_argument[] = "an argument failed";

static bool hands_on(const failure *failure) { /* whether the failure only passes on an argument's failure */
    return failure->cause != NULL && strncmp(failure->cause->message, by_argument, sizeof by_argument - 1) == 0;
}

/* The failure of a named argument: that of its call, without the call's name; of a death, its cause. */
static failure *own_cause(const failure *failure) {
    bool is_told = failure->cause != NULL && failure->detail == NULL && failure_is_death(failure->code);
    return is_told ? failure_ref(failure->cause) : failure_without_origin(failure);
}

/* Failure of a call whose futures have names: the first cause, and whose it is. Failures between the two, which only
 * pass it on, are left out. */
static failure *failure_of_named(const arguments_future *future) {
    const arguments_names *names = &future->arguments->futures->names;
    const failure *cause = future->object->failure;
    bool is_its_own = !hands_on(cause) && future->index >= names->first;
    while (hands_on(cause) && cause->cause->cause != NULL) cause = cause->cause->cause;
    if (!is_its_own) return failure_without_origin(cause);
    char text[NAMED_MAX];
    bool died = failure_is_death(cause->code);
    snprintf(text, sizeof text, "%s %u %s%s", names->noun, future->index - names->first, died ? "died" : "failed in ",
             died ? "" : names->method);
    return failure_create(cause->code, text, "", own_cause(cause));
}

/* Cause of a call that cannot start, or the failure of one with named arguments. */
static failure *failure_by(const arguments_future *future) {
    failure *cause = future->object->failure;
    if (arguments_are_named(future->arguments)) return failure_of_named(future);
    return failure_create(cause->code, by_argument, "", failure_ref(cause));
}

void arguments_name(arguments *arguments, const arguments_names *names) {
    arguments_futures *futures = arguments->futures;
    if (futures == NULL) return;
    futures->names = *names;
    for (uint32_t i = 0; arguments->failed != NULL && i < futures->count; i++) { /* failed before it had the name */
        const arguments_future *future = &futures->items[i];
        if (future->object->state != OBJECT_FAILED || future->error != NULL) continue;
        failure_unref(arguments->failed);
        arguments->failed = failure_by(future);
        return;
    }
}

/* Records the outcome of one future. */
static void take(arguments_future *future) {
    arguments *arguments = future->arguments;
    object *object = future->object;
    object_see(arguments->objects, object); /* the result of this call reports the failure */
    if (object->state == OBJECT_FAILED && arguments->failed == NULL && !as_value(future))
        arguments->failed = failure_by(future);
    if (--arguments->futures->left > 0 || arguments->failed != NULL) return;
    mr_status status = assemble(arguments);
    if (status != MR_OK) arguments->failed = failure_create(status, mr_last_error(), "", NULL);
}

static void arrived(object_waiter *waiter, object *object) {
    arguments_future *future = container_of(waiter, arguments_future, waiter);
    arguments *arguments = future->arguments;
    bool was_settled = arguments_are_settled(arguments);
    take(future);
    if (!was_settled && arguments_are_settled(arguments)) arguments->futures->settled(arguments);
}

/* ---- Initialization. */

static mr_status pack(arguments *arguments, value_pack_item *items, size_t count, value_pack **out) {
    attachment_packer packer = {.objects = arguments->objects, .may_wait = true, .leaves = true};
    return attachment_pack(&packer, items, count, out);
}

static mr_status add_future(arguments *arguments, mr_ref ref, uint32_t index) {
    object *object = object_find(arguments->objects, ref);
    if (object == NULL)
        return error_set(MR_INVALID,
                         "argument %u is object " OBJECT_ID ", which this process does not have: it was released",
                         index, OBJECT_ID_OF(ref));
    arguments_future *future = &arguments->futures->items[arguments->futures->count++];
    *future =
        (arguments_future){.waiter.fn = arrived, .arguments = arguments, .object = object_hold(object), .index = index};
    list_init(&future->waiter.place);
    arguments->futures->left++;
    return MR_OK;
}

static mr_status collect_futures(arguments *arguments, const mr_arg *args, value_pack_item *items, size_t count,
                                 size_t futures) {
    MR_TRY(alloc_try(sizeof(arguments_futures) + futures * sizeof(arguments_future), &arguments->futures));
    MR_TRY(pack(arguments, items, count, &arguments->futures->given));
    for (size_t i = 0; i < count; i++)
        if (arguments_is_future(&args[i])) MR_TRY(add_future(arguments, args[i].ref, (uint32_t)i));
    return MR_OK;
}

static mr_status collect(arguments *arguments, const mr_arg *args, value_pack_item *items, size_t count,
                         size_t *straight) {
    static const mr_arg nil = {.kind = MR_KIND_NIL};
    size_t futures = 0;
    for (size_t i = 0; i < count; i++) {
        bool future = arguments_is_future(&args[i]);
        futures += future;
        items[i].arg = future ? &nil : &args[i];
        items[i].fill = NULL;
    }
    if (futures > 0) return collect_futures(arguments, args, items, count, futures);
    if (pack_small(arguments, items, count)) return MR_OK;
    if (straight == NULL || (*straight = value_pack_small_size(items, count)) == 0)
        return pack(arguments, items, count, &arguments->values);
    pack_small(arguments, NULL, 0);
    return MR_OK;
}

mr_status arguments_init_some(arguments *arguments, objects *objects, const mr_arg *args, size_t count,
                              arguments_errors errors, size_t *straight, arguments_settled_fn *settled) {
    enum { FEW = 8 };
    value_pack_item few[FEW], *items = few;
    if (count > FEW) MR_TRY(alloc_try(count * sizeof(value_pack_item), &items));
    mr_status status = collect(arguments, args, items, count, straight);
    if (items != few) free(items);
    if (status != MR_OK) {
        arguments_fini(arguments);
        return status;
    }
    if (arguments->futures == NULL) return MR_OK;
    arguments->futures->settled = settled;
    arguments->futures->errors = errors;
    for (uint32_t i = 0; i < arguments->futures->count; i++) {
        arguments_future *future = &arguments->futures->items[i];
        if (future->object->state == OBJECT_PENDING)
            object_wait(objects, future->object, &future->waiter);
        else
            take(future);
    }
    return MR_OK;
}

static void drop_futures(arguments *arguments) {
    for (uint32_t i = 0; i < arguments->futures->count; i++) {
        object_unwait(&arguments->futures->items[i].waiter);
        object_drop(arguments->objects, arguments->futures->items[i].object);
        value_pack_unref(arguments->futures->items[i].error);
    }
    value_pack_unref(arguments->futures->given);
    free(arguments->futures);
    arguments->futures = NULL;
}

void arguments_fini_some(arguments *arguments) {
    if (arguments->futures != NULL) drop_futures(arguments);
    value_pack_unref(arguments->values);
    failure_unref(arguments->failed);
    arguments->values = NULL;
    arguments->failed = NULL;
}

bool arguments_wait_by(const object_waiter *waiter) { return waiter->fn == arrived; }
