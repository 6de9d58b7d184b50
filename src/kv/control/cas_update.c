/* cas_update.c — see cas_update.h. */
#include "kv/control/cas_update.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

struct cas_update {
    metadata_store store;
    const char *key;
    cas_update_edit_fn *edit;
    void *argument;
    mr_status status; /* MR_BUSY: not decided yet */
    bool ended;       /* the caller has ended it: the answer frees it */
    char error[ERROR_TEXT_MAX];
};

static void on_read(void *argument, const metadata_store_answer *answer);

static void look(cas_update *update) { update->store.ops->get(update->store.self, update->key, 0, on_read, update); }

static void finish(cas_update *update, mr_status status) {
    update->status = status;
    if (status != MR_OK) snprintf(update->error, sizeof update->error, "%s", mr_last_error());
}

static bool is_over(cas_update *update, mr_status status) {
    bool ended = update->ended;
    if (status == MR_CLOSED) finish(update, error_set(MR_CLOSED, "closed before '%s' was changed", update->key));
    if (ended) free(update);
    return ended || status == MR_CLOSED;
}

/* Without an answer it is unknown whether the change was made; the repeated edit finds out. */
static void on_swapped(void *argument, const metadata_store_answer *answer) {
    cas_update *update = argument;
    if (is_over(update, answer->status)) return;
    if (answer->status == MR_OK)
        finish(update, MR_OK);
    else
        look(update);
}

static void on_read(void *argument, const metadata_store_answer *answer) {
    cas_update *update = argument;
    metadata_store store = update->store;
    if (is_over(update, answer->status)) return;
    if (answer->status != MR_OK) {
        look(update);
        return;
    }
    cas_update_bytes bytes = {0};
    mr_status status = update->edit(update->argument, answer->value, &bytes);
    if (status == MR_OK && bytes.data != NULL)
        store.ops->compare_and_swap(store.self, update->key, answer->version, span_of(bytes.data, bytes.size), 0,
                                    on_swapped, update);
    else
        finish(update, status);
    free(bytes.data);
}

cas_update *cas_update_begin(metadata_store store, const char *key, cas_update_edit_fn *edit, void *argument) {
    cas_update *update = xcalloc(1, sizeof *update);
    update->store = store;
    update->key = key;
    update->edit = edit;
    update->argument = argument;
    update->status = MR_BUSY;
    look(update);
    return update;
}

mr_status cas_update_status(const cas_update *update) {
    if (update->status == MR_OK) return MR_OK;
    if (update->status == MR_BUSY) return error_set(MR_BUSY, "the scheduler has not answered ('%s')", update->key);
    return error_set(update->status, "%s", update->error);
}

void cas_update_end(cas_update *update) {
    if (update->status == MR_BUSY)
        update->ended = true;
    else
        free(update);
}
