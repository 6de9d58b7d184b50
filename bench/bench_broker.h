/* bench_broker.h — a broker in a process of its own, for measurements. To be used inside a bench_fn. */
#pragma once
#include "bench/bench.h"

typedef struct bench_broker {
    char folder[BENCH_FOLDER_MAX], path[BENCH_FOLDER_MAX + 4];
    pid_t pid;
} bench_broker;

void bench_broker_start(bench_broker *broker); /* returns when it can be joined */
void bench_broker_stop(bench_broker *broker);  /* also removes the broker's folder */
