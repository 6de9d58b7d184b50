/* transport_recorder.h — a transport for tests that only records calls; the test acts as the peers.
 *
 *     transport_recorder_init(&recorder);
 *     thing *thing = thing_create(&recorder.env, …);
 *     transport_recorder_listen(&recorder, &thing_events, thing);
 *     … recorder.opened == 1 … transport_recorder_open(&recorder, 1) …
 *     transport_recorder_take(&recorder, &link, &bytes) … */
#pragma once
#include "net/env.h"

enum { TRANSPORT_RECORDER_LINKS_MAX = 256, TRANSPORT_RECORDER_SENT_MAX = 4096 };

typedef struct transport_recorder_link {
    char address[64]; /* "" for a link that the peer opened */
    enum {
        TRANSPORT_RECORDER_OPENING = 1,
        TRANSPORT_RECORDER_OPEN,
        TRANSPORT_RECORDER_CLOSING,
        TRANSPORT_RECORDER_GONE
    } state;
} transport_recorder_link;

typedef struct transport_recorder_sent {
    link_id link;
    buffer bytes;
} transport_recorder_sent;

typedef struct transport_recorder {
    env env; /* the test moves its clock; it has no disk */
    virtual_clock clock;
    rng rng;
    const transport_events *events;
    void *context;
    transport_recorder_link links[TRANSPORT_RECORDER_LINKS_MAX]; /* link n has index n - 1 */
    uint32_t opened;                                             /* number of links opened by either side */
    transport_recorder_sent sent[TRANSPORT_RECORDER_SENT_MAX];   /* owned */
    size_t sent_count, taken;
    bool refuses, full; /* open returns MR_INVALID; reserve returns MR_BUSY */
    buffer reserved;
} transport_recorder;

void transport_recorder_init(transport_recorder *recorder);
void transport_recorder_fini(transport_recorder *recorder);
void transport_recorder_listen(transport_recorder *recorder, const transport_events *events, void *context);

/* the peer opens a link: on_open */
link_id transport_recorder_dial_in(transport_recorder *recorder);
/* a requested link opens: on_open */
void transport_recorder_open(transport_recorder *recorder, uint32_t link);
void transport_recorder_close(transport_recorder *recorder, uint32_t link, mr_status status); /* on_closed */
void transport_recorder_deliver(transport_recorder *recorder, link_id link, span head);

/* The oldest message that was not taken yet, whose bytes are valid until fini. False: no message. */
bool transport_recorder_take(transport_recorder *recorder, link_id *link, span *bytes);
