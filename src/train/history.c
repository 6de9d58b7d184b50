/* history.c — see history.h. */
#include "train/history.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

enum { FIRST = 64 };

mr_status history_add(history *history, mr_ref result) {
    if (history->count == history->capacity) {
        size_t capacity = history->capacity == 0 ? FIRST : 2 * history->capacity;
        void *memory = history->results;
        MR_TRY(alloc_try_resize(&memory, capacity * sizeof *history->results));
        history->results = memory;
        history->capacity = capacity;
    }
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
