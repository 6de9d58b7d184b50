/* scribe.c — see scribe.h. */
#include "kv/office/scribe.h"

#include <stdio.h>

#include "base/error.h"

static mr_status note(scribe *scribe, mr_status status) {
    snprintf(scribe->trouble, sizeof scribe->trouble, "%s", status == MR_OK ? "" : mr_last_error());
    return status;
}

static mr_status load(void *self, archive_take_fn *take, void *context, uint64_t *generation) {
    scribe *scribe = self;
    return scribe->below.ops->load(scribe->below.self, take, context, generation);
}

static mr_status save(void *self, const archive_content *content, size_t changed) {
    scribe *scribe = self;
    return note(scribe, scribe->below.ops->save(scribe->below.self, content, changed));
}

static mr_status begin(void *self, uint64_t generation) {
    scribe *scribe = self;
    return note(scribe, scribe->below.ops->begin(scribe->below.self, generation));
}

archive scribe_archive(scribe *scribe) {
    static const archive_ops ops = {.name = "scribe", .load = load, .save = save, .begin = begin};
    return (archive){&ops, scribe};
}
