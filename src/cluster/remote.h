/* remote.h — metadata store client for a store in another process, over control messages.
 *
 * Each request is sent once. If no answer comes in time it ends with MR_TIMEOUT, and whether a swap happened is not
 * known; the caller finds out with get. So a request needs no memory at the keeper, and a letter that comes twice does
 * no harm: the second swap finds its version taken. */
#pragma once
#include "cluster/coordinator.h"
#include "cluster/letter.h"
#include "cluster/mail.h"

#define REMOTE_TIMEOUT_US INT64_C(500000)
#define REMOTE_WATCH_US   INT64_C(5000000) /* longer than the keeper lets a watch wait (clerk.h) */

typedef struct remote remote;

remote *remote_create(const env *env, mail *mail,
                      const char *address); /* borrowed for its life; the address is copied */
void remote_destroy(remote *remote);        /* ends what is open with MR_CLOSED */

coordinator remote_coordinator(remote *remote);
bool remote_take(remote *remote, const letter *letter); /* true: it was an answer, and is dealt with */
int64_t remote_next_us(const remote *remote);
void remote_tick(remote *remote, int64_t now_us);
