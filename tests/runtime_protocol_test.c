/* runtime_protocol_test.c — a node rejects a driver of another version of the runtime's protocol; the error has both
 * versions and the action. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "miniray/runtime.h"
#include "runtime/refs/wire.h"
#include "tests/support/rpc_peer.h"
#include "tests/support/status_assert.h"

#define PATIENCE_US INT64_C(60000000)

typedef struct stranger { /* a driver of another release */
    rpc_peer peer;
    link_id link;
    bool linked, answered;
    mr_status status;
    char text[ERROR_TEXT_MAX];
} stranger;

static void ignore(void *context, const rpc_call_request *request) {}
static void on_linked(void *context, link_id link, const peer *peer) { ((stranger *)context)->linked = true; }

static void on_answer(void *argument, rpc_call_id id, const rpc_call_result *result) {
    stranger *stranger = argument;
    stranger->answered = true;
    stranger->status = result->status;
    snprintf(stranger->text, sizeof stranger->text, "%.*s", (int)result->payload.size,
             result->payload.size == 0 ? "" : (const char *)result->payload.data);
}

static void another_version_is_rejected(void **state) {
    static const rpc_call_handlers handlers = {.on_request = ignore, .on_link_open = on_linked};
    enum { OTHER = WIRE_VERSION + 1, JOIN_SIZE = 9, TURN_US = 10000 };
    char words[ERROR_TEXT_MAX];
    stranger stranger = {0};
    mr_context *mr;
    uint8_t *payload;
    must(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1), &mr));
    must(rpc_peer_open(&stranger.peer, WIRE_SHM, mr_address(mr), "stranger", &handlers, &stranger));
    transport transport = stranger.peer.env.transport;
    must(transport.ops->open(transport.self, "shm:node", &stranger.link));
    for (int64_t us = 0; !stranger.linked && us < PATIENCE_US; us += TURN_US) rpc_peer_turn(&stranger.peer, TURN_US);
    must(rpc_begin(stranger.peer.rpc, stranger.link, NODE_JOIN, JOIN_SIZE, &payload));
    writer writer = writer_of(payload, JOIN_SIZE);
    writer_u32(&writer, OTHER);
    writer_u8(&writer, WIRE_WATCHER);
    writer_u32(&writer, (uint32_t)getpid());
    (void)rpc_commit(stranger.peer.rpc, 0, stranger.link, JOIN_SIZE, NULL, on_answer, &stranger);
    for (int64_t us = 0; !stranger.answered && us < PATIENCE_US; us += TURN_US) rpc_peer_turn(&stranger.peer, TURN_US);
    assert_int_equal(stranger.status, MR_DENIED);
    snprintf(words, sizeof words, "version %d of the runtime's protocol, the node version %d: use the same", OTHER,
             WIRE_VERSION);
    assert_non_null(strstr(stranger.text, words));
    rpc_peer_close(&stranger.peer);
    mr_shutdown(mr);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(another_version_is_rejected)};
    mr_context *mr;
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
