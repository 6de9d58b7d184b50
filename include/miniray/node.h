/* miniray/node.h — a lasting node: the process that owns this machine's shared memory, workers and resources, and that
 * several programs join (mr_options.address). `miniray start` and `miniray stop` are these two functions. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_node_options { /* zero means the default everywhere */
    const char *address;         /* the path of its socket; default: this user's own place, the address "auto" */
    int num_cpus;                /* tasks that run at once; default: the CPUs of the machine */
    double num_gpus;             /* if CUDA_VISIBLE_DEVICES is set: the first ones of that list */
    const char *resources;       /* "name=2,other=0.5" */
    size_t store_bytes; /* shared memory; default: the option arena_bytes (miniray config), mr_store_bytes_default */
} mr_node_options;

typedef struct mr_node_info {
    int pid;
    char address[112]; /* the path of its socket */
    char folder[112];  /* where it and its workers write their logs; "" where it is not known */
} mr_node_info;

/* The memory that this process may use: that of the machine, or of the tightest memory cgroup around the process. */
typedef struct mr_memory {
    uint64_t total, available; /* bytes; 0: not known */
} mr_memory;
MR_API void mr_memory_get(mr_memory *out);

/* How much shared memory a node has by default: 30 % of the memory that is available to this process (mr_memory_get),
 * or of its address space if that is limited to less; at least 64 MB. Memory is taken page by page as it is written, so
 * an idle node has little of it, however large that is, and it starts as fast. */
MR_API size_t mr_store_bytes_default(void);

/* The node is this same executable, started again; it stands when this returns, and goes on when this process ends.
 * MR_EXISTS: there is one already. `out` may be NULL here and below. */
MR_API MR_MUST mr_status mr_node_start(const mr_node_options *options, mr_node_info *out);

/* Ends it, and everything it has started; the programs that have joined get MR_CLOSED. `address` NULL: "auto". Returns
 * when it is gone. MR_NOT_FOUND: there is none. */
MR_API MR_MUST mr_status mr_node_stop(const char *address, mr_node_info *out);

#ifdef __cplusplus
}
#endif
