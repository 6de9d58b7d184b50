/* bench_hub.h — a hub in a process of its own, for measurements. To be used inside a bench_fn. */
#pragma once
#include "bench/bench.h"

typedef struct bench_hub {
    char folder[BENCH_FOLDER_MAX], path[BENCH_FOLDER_MAX + 4];
    pid_t pid;
} bench_hub;

void bench_hub_start(bench_hub *hub); /* returns when it can be joined */
void bench_hub_stop(bench_hub *hub);  /* and removes its folder */
