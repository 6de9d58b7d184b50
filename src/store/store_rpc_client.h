/* store_rpc_client.h — store client whose server is in another process: requests go by RPC (store_rpc_server.h).
 *
 *   store_rpc_client_join(&client, calls, link);  // asks for a process page; drive the calls until .joined or .failed
 *   store_rpc_client_open(&client, arena, process, clock, &store);
 *
 * The calls object and the link are borrowed until the store is closed; when the link ends, asking fails with
 * MR_CLOSED.
 */
#pragma once
#include "net/rpc/rpc.h"
#include "store/store_client.h"

typedef struct store_rpc_client {
    rpc *rpc;
    link_id link;
    store_client *store; /* NULL until it is open */
    extent lease_page;
    bool joined;
    mr_status failed;                /* why there is no process page; MR_OK: there is, or it is not known yet */
    void (*answered)(void *context); /* the store has an answer; may be NULL */
    void *context;
    unsigned open; /* requests without an answer; all must be answered before the client goes */
} store_rpc_client;

MR_MUST mr_status store_rpc_client_join(store_rpc_client *client, rpc *rpc, link_id link);
MR_MUST mr_status store_rpc_client_open(store_rpc_client *client, const arena *arena, uint64_t process,
                                        clock_source clock, store_client **out);
/* Closes the store. Answers that come later go nowhere. */
/* as store_client_close_keeping */
void store_rpc_client_close_keeping(store_rpc_client *client, bool alone, private_mapping *out);
