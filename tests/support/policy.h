/* policy.h — a scheduler under test, with resources as texts; what is not as expected fails the test. */
#pragma once
#include "runtime/node/scheduler.h"

enum { POLICY_PROGRAM = 1 };

resources policy_amount(const char *text);
scheduler *policy_machine(const char *total, uint32_t prestart);
/* A machine with clients 1…clients and idle workers 101…, of one program. */
scheduler *policy_house(const char *total, uint64_t clients, uint64_t workers);

void policy_ask(scheduler *scheduler, uint64_t client, uint64_t ticket, const char *need);
/* The next decision, which is this. */
scheduler_decision policy_next(scheduler *scheduler, scheduler_verb verb);
scheduler_decision policy_granted(scheduler *scheduler, uint64_t client, uint64_t ticket);
void policy_nothing(scheduler *scheduler); /* there is none */
int64_t policy_free_milli(const scheduler *scheduler, const char *name);
void policy_give_back(scheduler *scheduler, const scheduler_decision *grant);
