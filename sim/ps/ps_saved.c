/* ps_saved.c — see ps_saved.h. */
#include "sim/ps/ps_saved.h"

ps_saved *ps_saved_add(ps_saved_list *saved, uint64_t checkpoint) {
    ps_saved *made = &saved->list[saved->count++ % PS_SAVED_MAX];
    *made = (ps_saved){.checkpoint = checkpoint};
    return made;
}

ps_saved *ps_saved_find(ps_saved_list *saved, uint64_t checkpoint) {
    for (size_t i = saved->count; i-- > 0 && i + PS_SAVED_MAX >= saved->count;)
        if (saved->list[i % PS_SAVED_MAX].checkpoint == checkpoint) return &saved->list[i % PS_SAVED_MAX];
    return NULL;
}

void ps_saved_drop_after(ps_saved_list *saved, uint64_t checkpoint) {
    for (size_t i = 0; i < PS_SAVED_MAX; i++)
        if (saved->list[i].checkpoint > checkpoint) saved->list[i] = (ps_saved){0};
}
