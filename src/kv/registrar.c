/* registrar.c — see registrar.h. */
#include "kv/registrar.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

struct registrar_ask {
    coordinator coordinator;
    registrar_edit_fn *edit;
    void *argument;
    mr_status status; /* MR_BUSY: not yet */
    bool ended;       /* nobody waits: it goes with its answer */
    char error[ERROR_TEXT_MAX];
};

static void on_read(void *argument, const coordinator_answer *answer);

static void look(registrar_ask *ask) {
    ask->coordinator.ops->get(ask->coordinator.self, CATALOGUE_KEY, 0, on_read, ask);
}

static void finish(registrar_ask *ask, mr_status status) {
    ask->status = status;
    if (status != MR_OK) snprintf(ask->error, sizeof ask->error, "%s", mr_last_error());
}

static bool is_over(registrar_ask *ask, mr_status status) {
    if (status == MR_CLOSED) finish(ask, error_set(MR_CLOSED, "the connection was closed"));
    if (ask->ended) free(ask);
    return status == MR_CLOSED;
}

/* Whether it was decided is not known of what is not answered: the edit finds out. */
static void on_swapped(void *argument, const coordinator_answer *answer) {
    registrar_ask *ask = argument;
    bool ended = ask->ended;
    if (is_over(ask, answer->status) || ended) return;
    if (answer->status == MR_OK)
        finish(ask, MR_OK);
    else
        look(ask);
}

static void swap(registrar_ask *ask, const catalogue *catalogue, uint64_t version) {
    size_t size = catalogue_size(catalogue);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    catalogue_encode(catalogue, &writer);
    ask->coordinator.ops->compare_and_swap(ask->coordinator.self, CATALOGUE_KEY, version, span_of(bytes, size), 0,
                                           on_swapped, ask);
    free(bytes);
}

static void on_read(void *argument, const coordinator_answer *answer) {
    registrar_ask *ask = argument;
    bool ended = ask->ended, changed = false;
    if (is_over(ask, answer->status) || ended) return;
    if (answer->status != MR_OK) {
        look(ask);
        return;
    }
    catalogue catalogue = {0};
    mr_status status = catalogue_decode(answer->value, &catalogue);
    if (status == MR_OK) status = ask->edit(ask->argument, &catalogue, &changed);
    if (status == MR_OK && changed)
        swap(ask, &catalogue, answer->version);
    else
        finish(ask, status);
    catalogue_fini(&catalogue);
}

registrar_ask *registrar_begin(coordinator coordinator, registrar_edit_fn *edit, void *argument) {
    registrar_ask *ask = xcalloc(1, sizeof *ask);
    *ask = (registrar_ask){.coordinator = coordinator, .edit = edit, .argument = argument, .status = MR_BUSY};
    look(ask);
    return ask;
}

mr_status registrar_status(const registrar_ask *ask) {
    if (ask->status == MR_OK) return MR_OK;
    if (ask->status == MR_BUSY) return error_set(MR_BUSY, "the scheduler has not answered");
    return error_set(ask->status, "%s", ask->error);
}

void registrar_end(registrar_ask *ask) {
    if (ask->status == MR_BUSY)
        ask->ended = true;
    else
        free(ask);
}
