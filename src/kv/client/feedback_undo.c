/* feedback_undo.c — see feedback_undo.h. */
#include "kv/client/feedback_undo.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct feedback_undo_entry {
    struct feedback_undo_entry *next; /* the one before */
    uint32_t table, array;
    uint64_t items, first;
    size_t count;             /* residuals */
    error_feedback_keys keys; /* in the memory of this entry; count 0: a stretch */
    float *rests;             /* likewise */
} entry;

static mr_status add(feedback_undo *undo, entry like, const float *rests) {
    size_t lengths = like.keys.lengths == NULL ? 0 : like.keys.count * sizeof *like.keys.lengths;
    size_t key_bytes = like.keys.count * sizeof *like.keys.keys, rest_bytes = like.count * sizeof *rests;
    entry *made;
    MR_TRY(alloc_try(sizeof *made + key_bytes + lengths + rest_bytes, &made));
    uint8_t *at = (uint8_t *)(made + 1);
    *made = like;
    if (key_bytes != 0) made->keys.keys = memcpy(at, like.keys.keys, key_bytes);
    if (lengths != 0) made->keys.lengths = memcpy(at + key_bytes, like.keys.lengths, lengths);
    made->rests = (float *)(void *)(at + key_bytes + lengths);
    if (rest_bytes != 0) memcpy(made->rests, rests, rest_bytes);
    made->next = undo->newest;
    undo->newest = made;
    return MR_OK;
}

mr_status feedback_undo_keys(feedback_undo *undo, uint32_t table, const error_feedback_keys *keys, const float *rests) {
    size_t count = keys->count * keys->dim;
    if (keys->count == 0) return MR_OK;
    for (size_t i = 0, sum = 0; keys->lengths != NULL && i < keys->count; i++) count = sum += keys->lengths[i];
    return add(undo, (entry){.table = table, .count = count, .keys = *keys}, rests);
}

mr_status feedback_undo_stretch(feedback_undo *undo, uint32_t table, uint32_t array, uint64_t items, uint64_t first,
                                size_t count, const float *rests) {
    return add(undo, (entry){.table = table, .array = array, .items = items, .first = first, .count = count}, rests);
}

static void revert(const entry *entry, error_feedback *feedback) {
    float *rests;
    if (entry->keys.count != 0)
        error_feedback_write(feedback, &entry->keys, entry->rests);
    else if (error_feedback_stretch(feedback, entry->array, entry->items, entry->first, entry->count, &rests) == MR_OK)
        memcpy(rests, entry->rests, entry->count * sizeof *rests);
}

void feedback_undo_revert(feedback_undo *undo, feedback_file *file) {
    for (const entry *entry = undo->newest; entry != NULL; entry = entry->next) {
        error_feedback *feedback = feedback_file_find(file, entry->table);
        if (feedback != NULL) revert(entry, feedback); /* else the table was dropped */
    }
    feedback_undo_clear(undo);
}

void feedback_undo_clear(feedback_undo *undo) {
    for (entry *entry = undo->newest, *next; entry != NULL; entry = next) {
        next = entry->next;
        free(entry);
    }
    undo->newest = NULL;
}
