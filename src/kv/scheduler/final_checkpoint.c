/* final_checkpoint.c — see final_checkpoint.h. */
#include "kv/scheduler/final_checkpoint.h"

void final_checkpoint_begin(final_checkpoint *final, uint64_t token, int64_t patience_us, int64_t now_us) {
    *final = (struct final_checkpoint){.phase = FINAL_CHECKPOINT_WAITING,
                                       .token = token,
                                       .begun_us = now_us,
                                       .moved_us = now_us,
                                       .served_us = now_us,
                                       .next_us = now_us,
                                       .patience_us = patience_us};
}

static final_checkpoint_phase judge(const final_checkpoint *final, int64_t now_us) {
    if (final->number != 0) return FINAL_CHECKPOINT_COMPLETE;
    if (now_us - final->served_us >= FINAL_CHECKPOINT_GONE_US) return FINAL_CHECKPOINT_GONE;
    bool late = now_us - final->moved_us >= final->patience_us || now_us - final->begun_us >= FINAL_CHECKPOINT_MAX_US;
    return late ? FINAL_CHECKPOINT_LATE : FINAL_CHECKPOINT_WAITING;
}

bool final_checkpoint_tick(final_checkpoint *final, const final_checkpoint_facts *facts, int64_t now_us) {
    if (final->phase != FINAL_CHECKPOINT_WAITING) return false;
    final->number = facts->number;
    if (facts->served) final->served_us = now_us;
    if (facts->making != final->making || facts->saved != final->saved) final->moved_us = now_us;
    final->making = facts->making;
    final->saved = facts->saved;
    final->next_us = now_us + FINAL_CHECKPOINT_TICK_US;
    final->phase = judge(final, now_us);
    return final->phase != FINAL_CHECKPOINT_WAITING;
}
