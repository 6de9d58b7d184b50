/* scheduler_fixture.h — a scheduler under test, with resources as texts; an unexpected result fails the test. */
#pragma once
#include "runtime/node/scheduler.h"

enum { SCHEDULER_FIXTURE_PROGRAM = 1 };

resources scheduler_fixture_amount(const char *text);
scheduler *scheduler_fixture_machine(const char *total, uint32_t prestart);
/* A machine with clients 1…clients and idle workers from 101 on, all of one job. */
scheduler *scheduler_fixture_house(const char *total, uint64_t clients, uint64_t workers);

void scheduler_fixture_ask(scheduler *scheduler, uint64_t client, uint64_t ticket, const char *need);
/* Returns the next decision, and asserts its verb. */
scheduler_decision scheduler_fixture_next(scheduler *scheduler, scheduler_verb verb);
scheduler_decision scheduler_fixture_granted(scheduler *scheduler, uint64_t client, uint64_t ticket);
void scheduler_fixture_nothing(scheduler *scheduler); /* asserts that there is no decision */
int64_t scheduler_fixture_free_milli(const scheduler *scheduler, const char *name);
void scheduler_fixture_give_back(scheduler *scheduler, const scheduler_decision *grant);
