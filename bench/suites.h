/* suites.h — the suites that there are. A new one is a line here and a line in main.c. */
#pragma once
#include "bench/bench.h"

void limits_bench(bench *b);      /* what this machine can do at all */
void ring_bench(bench *b);        /* messages through shared memory */
void shm_bench(bench *b);         /* whole messages through shared memory */
void encode_bench(bench *b);      /* frames and values as bytes */
void rpc_bench(bench *b);         /* calls over every transport */
void socket_bench(bench *b);      /* messages over tcp and unix sockets */
void store_bench(bench *b);       /* objects in shared memory */
void runtime_bench(bench *b);     /* tasks, actors and objects */
void scheduling_bench(bench *b);  /* who gets how much of the workers */
void object_bench(bench *b);      /* large values */
void events_bench(bench *b);      /* what it costs to be seen */
void aggregate_bench(bench *b);   /* models into one */
void train_bench(bench *b);       /* trainers */
void sync_bench(bench *b);        /* models that are synced */
void ps_bench(bench *b);          /* the parameter server as processes */
void ps_topology_bench(bench *b); /* more servers, workers and copies */
void ps_scale_bench(bench *b);    /* more rows, larger values */
void ps_recovery_bench(bench *b); /* a server is killed */
void ps_table_bench(bench *b);    /* rows by key, optimizers, codecs */
void ps_engine_bench(bench *b);   /* what a server does for a request */
void ps_codec_bench(bench *b);    /* pushes through codecs */
void runtime_bench_serve(void);   /* in a worker of that suite: does not return */
