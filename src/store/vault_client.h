/* vault_client.h — store client whose server is in another process: requests go by RPC (vault_service.h).
 *
 *   vault_client_join(&client, calls, link);      // asks for a desk; drive the calls until client.joined or .failed
 *   vault_client_open(&client, arena, process, clock, &store);
 *
 * The calls object and the link are borrowed until the store is closed; when the link ends, asking fails with
 * MR_CLOSED.
 */
#pragma once
#include "net/call.h"
#include "store/store.h"

typedef struct vault_client {
    calls *calls;
    link_id link;
    store *store; /* NULL until it is open */
    extent desk;
    bool joined;
    mr_status failed;                /* why there is no desk; MR_OK: there is, or it is not known yet */
    void (*answered)(void *context); /* the store has an answer; may be NULL */
    void *context;
    unsigned open; /* requests without an answer; all must be answered before the client goes */
} vault_client;

MR_MUST mr_status vault_client_join(vault_client *client, calls *calls, link_id link);
MR_MUST mr_status vault_client_open(vault_client *client, const arena *arena, uint64_t process, clock_source clock,
                                    store **out);
/* Closes the store. Answers that come later go nowhere. */
void vault_client_close_keeping(vault_client *client, bool alone, lens *out); /* as store_close_keeping */
