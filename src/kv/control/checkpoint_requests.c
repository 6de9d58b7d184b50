/* checkpoint_requests.c — see checkpoint_requests.h. */
#include "kv/control/checkpoint_requests.h"

static void forget_silent(checkpoint_requests *requests, int64_t now_us) {
    size_t kept = 0;
    for (size_t i = 0; i < requests->count; i++)
        if (now_us - requests->list[i].asked_us < CHECKPOINT_REQUESTS_SILENT_US)
            requests->list[kept++] = requests->list[i];
    requests->count = kept;
}

uint64_t checkpoint_requests_ask(checkpoint_requests *requests, uint64_t token, bool making, int64_t now_us) {
    size_t at = 0;
    while (at < requests->count && requests->list[at].token != token) at++;
    if (at == requests->count) forget_silent(requests, now_us);
    if (at >= requests->count) {
        if (requests->count == CHECKPOINT_REQUESTS_MAX) return 0;
        at = requests->count++;
        requests->list[at] = (checkpoint_request){.token = token, .owed = making || !requests->seen ? 2 : 1};
    }
    requests->list[at].asked_us = now_us;
    return requests->list[at].number;
}

void checkpoint_requests_whole(checkpoint_requests *requests, uint64_t number) {
    requests->seen = true;
    for (size_t i = 0; i < requests->count; i++) {
        checkpoint_request *request = &requests->list[i];
        if (request->owed != 0 && --request->owed == 0) request->number = number;
    }
}
