/* storage_errors.c — see storage_errors.h. */
#include "kv/control/storage_errors.h"

#include <stdio.h>

#include "base/error.h"

static mr_status note(storage_errors *errors, mr_status status) {
    snprintf(errors->trouble, sizeof errors->trouble, "%s", status == MR_OK ? "" : mr_last_error());
    return status;
}

static mr_status load(void *self, metadata_storage_take_fn *take, void *context, uint64_t *generation) {
    storage_errors *errors = self;
    return errors->below.ops->load(errors->below.self, take, context, generation);
}

static mr_status save(void *self, const metadata_storage_content *content, size_t changed) {
    storage_errors *errors = self;
    return note(errors, errors->below.ops->save(errors->below.self, content, changed));
}

static mr_status begin(void *self, uint64_t generation) {
    storage_errors *errors = self;
    return note(errors, errors->below.ops->begin(errors->below.self, generation));
}

metadata_storage storage_errors_storage(storage_errors *errors) {
    static const metadata_storage_ops ops = {.name = "scribe", .load = load, .save = save, .begin = begin};
    return (metadata_storage){&ops, errors};
}
