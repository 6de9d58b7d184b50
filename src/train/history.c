/* history.c — see history.h. */
#include "train/history.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

mr_status history_add(history *history, mr_ref result) {
    MR_TRY(alloc_try_grow(&history->results, &history->capacity, history->count + 1, sizeof *history->results));
    history->results[history->count++] = result;
    return MR_OK;
}

mr_status history_get(const history *history, mr_context *mr, size_t index, mr_value *out) {
    if (index >= history->count)
        return error_set(MR_NOT_FOUND, "no result of epoch %zu: %zu epochs were trained", index, history->count);
    return mr_get(mr, history->results[index], MR_FOREVER, out);
}

void history_fini(history *history, mr_context *mr) {
    for (size_t i = 0; i < history->count; i++) mr_release(mr, history->results[i]);
    free(history->results);
    *history = (struct history){0};
}
