/* suites.h — list of suites. A new suite needs a line here and a line in main.c. */
#pragma once
#include "bench/bench.h"

void limits_bench(bench *b);      /* limits of this machine */
void ring_bench(bench *b);        /* rings */
void shm_bench(bench *b);         /* messages of the shm transport */
void encode_bench(bench *b);      /* frames and values as bytes */
void rpc_bench(bench *b);         /* RPCs over every transport */
void socket_bench(bench *b);      /* messages over tcp and unix sockets */
void store_bench(bench *b);       /* objects in shared memory */
void runtime_bench(bench *b);     /* tasks, actors and objects */
void scheduling_bench(bench *b);  /* fairness among tasks and drivers */
void idle_bench(bench *b);        /* processes that wait */
void object_bench(bench *b);      /* large values */
void events_bench(bench *b);      /* cost of the event ring */
void aggregate_bench(bench *b);   /* aggregation of models */
void train_bench(bench *b);       /* trainers */
void sync_bench(bench *b);        /* model sync */
void ps_bench(bench *b);          /* the parameter server as processes */
void ps_topology_bench(bench *b); /* more servers, workers and replicas */
void ps_scale_bench(bench *b);    /* more rows, larger values */
void ps_recovery_bench(bench *b); /* a server is killed */
void ps_table_bench(bench *b);    /* rows by key, optimizers, codecs */
void ps_engine_bench(bench *b);   /* storage engine */
void ps_codec_bench(bench *b);    /* pushes through codecs */
void runtime_bench_serve(void);   /* in a worker of that suite: does not return */
