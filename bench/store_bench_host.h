/* store_bench_host.h — a broker with a store server in a process of its own, and the other side of it: for benchmarks
 * and tests.
 *
 * The host is what a node will be: broker, store server, spill and a port (called "vault") in one loop. A visitor is
 * any other process: a port with calls on top, and a store. */
#pragma once
#include <sys/types.h>

#include "net/shm/shm_transport.h"
#include "store/store_rpc_client.h"

typedef struct store_bench_host_options {
    const char *broker; /* path of the broker's socket */
    const char *folder; /* to spill to; NULL: no spilling */
    uint64_t arena_bytes;
    int ready_fd;                /* a byte is written when it stands */
    int stop_fd;                 /* it ends when this is readable or closed */
    const char *failpoint;       /* armed when it stands; NULL: none */
    bool check;                  /* at the end, see that nothing is left over */
    uint64_t *spilled, *objects; /* where to leave counts (shared memory); may be NULL */
} store_bench_host_options;

/* Serves until stop_fd. 0; else what went wrong, which is also printed. */
int store_bench_host_run(const store_bench_host_options *options);

typedef struct visitor {
    env env;
    rng rng;
    rpc *rpc;
    shm_transport *transport;
    link_id store_server_link;
    store_rpc_client client;
    store_client *store;
    bool open, closed; /* the link to the store server */
} visitor;

/* Joins and opens a store; waits for it. MR_CLOSED, MR_PEER_DIED, …: it did not work. */
MR_MUST mr_status visitor_open(visitor *visitor, const char *broker, const char *name);
void visitor_close(visitor *visitor);
void visitor_drive(visitor *visitor, int64_t timeout_us); /* once */

/* The same as the store's, but waiting where it says MR_BUSY, until the store server is gone. */
MR_MUST mr_status visitor_create(visitor *visitor, uint64_t size, store_client_object **out, void **data);
MR_MUST mr_status visitor_take(visitor *visitor, const object_ref *ref, store_client_object **out);
MR_MUST mr_status visitor_view(visitor *visitor, store_client_object *object, void **data, uint64_t *size);
