/* store_rpc_client.h — store client whose server is in another process: requests are RPCs (store_rpc_server.h).
 *
 *   store_rpc_client_join(&client, rpc, link);  // requests a process page; poll the rpc until .joined or .failed
 *   store_rpc_client_open(&client, arena, process, clock, &store);
 *
 * The rpc and the link are borrowed until the store is closed; after the end of the link requests fail with MR_CLOSED.
 */
#pragma once
#include "net/rpc/rpc.h"
#include "store/store_client.h"

typedef struct store_rpc_client {
    rpc *rpc;
    link_id link;
    store_client *store; /* NULL while it is not open */
    extent lease_page;
    bool joined;
    mr_status failed;                /* error of the request for a process page; MR_OK: none yet */
    void (*answered)(void *context); /* called after each answer; may be NULL */
    void *context;
    unsigned open; /* requests without an answer; the client must stay until this is 0 */
} store_rpc_client;

MR_MUST mr_status store_rpc_client_join(store_rpc_client *client, rpc *rpc, link_id link);
MR_MUST mr_status store_rpc_client_open(store_rpc_client *client, const arena *arena, uint64_t process,
                                        clock_source clock, store_client **out);
/* As store_client_close_keeping. Later answers are dropped. */
void store_rpc_client_close_keeping(store_rpc_client *client, bool alone, private_mapping *out);
