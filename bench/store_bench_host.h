/* store_bench_host.h — a broker with a store server in a process of its own, and its clients: for benchmarks and tests.
 *
 * The host does the work of a node: broker, store server, spilling and a shm transport (named "vault") in one event
 * loop. A visitor is any other process: a transport with RPC on top, and a store client. */
#pragma once
#include <sys/types.h>

#include "net/shm/shm_transport.h"
#include "store/store_rpc_client.h"

typedef struct store_bench_host_options {
    const char *broker; /* path of the broker's socket */
    const char *folder; /* folder for spilled objects; NULL: no spilling */
    uint64_t arena_bytes;
    int ready_fd;                /* the host writes a byte when it is ready */
    int stop_fd;                 /* the host ends when this is readable or closed */
    const char *failpoint;       /* failpoint armed when the host is ready; NULL: none */
    bool check;                  /* checks at the end that no object and no memory is left */
    uint64_t *spilled, *objects; /* shared memory for counts; may be NULL */
} store_bench_host_options;

/* Serves until stop_fd. Returns 0, or nonzero after printing the error. */
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

/* Joins and opens a store; waits until it is open. MR_CLOSED, MR_PEER_DIED, … on failure. */
MR_MUST mr_status visitor_open(visitor *visitor, const char *broker, const char *name);
void visitor_close(visitor *visitor);
void visitor_drive(visitor *visitor, int64_t timeout_us); /* runs one turn */

/* As the store's functions, but they wait on MR_BUSY until the store server is gone. */
MR_MUST mr_status visitor_create(visitor *visitor, uint64_t size, store_client_object **out, void **data);
MR_MUST mr_status visitor_take(visitor *visitor, const object_ref *ref, store_client_object **out);
MR_MUST mr_status visitor_view(visitor *visitor, store_client_object *object, void **data, uint64_t *size);
