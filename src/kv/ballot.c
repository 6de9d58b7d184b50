/* ballot.c — see ballot.h. */
#include "kv/ballot.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

struct ballot {
    coordinator coordinator;
    const char *key;
    ballot_edit_fn *edit;
    void *argument;
    mr_status status; /* MR_BUSY: not yet */
    bool ended;       /* nobody waits: it goes with its answer */
    char error[ERROR_TEXT_MAX];
};

static void on_read(void *argument, const coordinator_answer *answer);

static void look(ballot *ballot) {
    ballot->coordinator.ops->get(ballot->coordinator.self, ballot->key, 0, on_read, ballot);
}

static void finish(ballot *ballot, mr_status status) {
    ballot->status = status;
    if (status != MR_OK) snprintf(ballot->error, sizeof ballot->error, "%s", mr_last_error());
}

static bool is_over(ballot *ballot, mr_status status) {
    bool ended = ballot->ended;
    if (status == MR_CLOSED) finish(ballot, error_set(MR_CLOSED, "closed before '%s' was changed", ballot->key));
    if (ended) free(ballot);
    return ended || status == MR_CLOSED;
}

/* Whether it was decided is not known of what is not answered: the edit finds out. */
static void on_swapped(void *argument, const coordinator_answer *answer) {
    ballot *ballot = argument;
    if (is_over(ballot, answer->status)) return;
    if (answer->status == MR_OK)
        finish(ballot, MR_OK);
    else
        look(ballot);
}

static void on_read(void *argument, const coordinator_answer *answer) {
    ballot *ballot = argument;
    coordinator coordinator = ballot->coordinator;
    if (is_over(ballot, answer->status)) return;
    if (answer->status != MR_OK) {
        look(ballot);
        return;
    }
    ballot_bytes bytes = {0};
    mr_status status = ballot->edit(ballot->argument, answer->value, &bytes);
    if (status == MR_OK && bytes.data != NULL)
        coordinator.ops->compare_and_swap(coordinator.self, ballot->key, answer->version,
                                          span_of(bytes.data, bytes.size), 0, on_swapped, ballot);
    else
        finish(ballot, status);
    free(bytes.data);
}

ballot *ballot_begin(coordinator coordinator, const char *key, ballot_edit_fn *edit, void *argument) {
    ballot *ballot = xcalloc(1, sizeof *ballot);
    ballot->coordinator = coordinator;
    ballot->key = key;
    ballot->edit = edit;
    ballot->argument = argument;
    ballot->status = MR_BUSY;
    look(ballot);
    return ballot;
}

mr_status ballot_status(const ballot *ballot) {
    if (ballot->status == MR_OK) return MR_OK;
    if (ballot->status == MR_BUSY) return error_set(MR_BUSY, "the scheduler has not answered ('%s')", ballot->key);
    return error_set(ballot->status, "%s", ballot->error);
}

void ballot_end(ballot *ballot) {
    if (ballot->status == MR_BUSY)
        ballot->ended = true;
    else
        free(ballot);
}
