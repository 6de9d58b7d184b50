/* ps_checker_internal.h — internals of the checker, shared by ps_checker.c and ps_generations.c; see ps_checker.h. */
#pragma once
#include "sim/ps/ps_checker.h"

/* the record of a round, made on demand */
ps_round *ps_checker_round_at(ps_checker *checker, uint64_t round);
bool ps_checker_in_rounds(const ps_checker *checker, uint32_t slot);
bool ps_checker_is_round_state(const ps_checker *checker, uint32_t slot);
/* last seq of the rank within the first `count` entries of the slot */
uint64_t ps_checker_last_name(const ps_checker *checker, uint32_t slot, size_t count, uint32_t rank);
/* a slot without rounds has all steps before this version of each rank that was counted */
void ps_checker_check_free(ps_checker *checker, uint32_t slot, size_t count, uint64_t version);
/* lsn of the last such entry after the first `first`; 0: none */
uint64_t ps_checker_find_name(const ps_checker_history *history, size_t first, replica_log_kind kind, uint32_t rank,
                              uint64_t name);
/* adds one version to the sequential run */
void ps_checker_add_model(ps_checker *checker);
/* the values of the keys are those of the sequential run */
void ps_checker_check_version(ps_checker *checker, uint32_t slot, uint64_t version, uint8_t keys, span values);
