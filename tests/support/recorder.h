/* recorder.h — a transport for tests that only writes down what is done to it; the test plays the world.
 *
 *     recorder_init(&recorder);
 *     thing *thing = thing_create(&recorder.env, …);
 *     recorder_listen(&recorder, &thing_events, thing);
 *     … recorder.opened == 1 … recorder_open(&recorder, 1) … recorder_take(&recorder, &link, &bytes) … */
#pragma once
#include "net/env.h"

enum { RECORDER_LINKS_MAX = 256, RECORDER_SENT_MAX = 4096 };

typedef struct recorder_link {
    char address[64]; /* "" for one that the other side opened */
    enum { RECORDER_OPENING = 1, RECORDER_OPEN, RECORDER_CLOSING, RECORDER_GONE } state;
} recorder_link;

typedef struct recorder_sent {
    link_id link;
    buffer bytes;
} recorder_sent;

typedef struct recorder {
    env env; /* its clock stands still until the test moves it; it has no disk */
    virtual_clock clock;
    rng rng;
    const transport_events *events;
    void *context;
    recorder_link links[RECORDER_LINKS_MAX]; /* link n is at n - 1 */
    uint32_t opened;                         /* links there are, of either side */
    recorder_sent sent[RECORDER_SENT_MAX];   /* owned */
    size_t sent_count, taken;
    bool refuses, full; /* open answers MR_INVALID; reserve answers MR_BUSY */
    buffer reserved;
} recorder;

void recorder_init(recorder *recorder);
void recorder_fini(recorder *recorder);
void recorder_listen(recorder *recorder, const transport_events *events, void *context);

link_id recorder_dial_in(recorder *recorder);                             /* the other side opens a link: on_open */
void recorder_open(recorder *recorder, uint32_t link);                    /* what was asked for opens: on_open */
void recorder_close(recorder *recorder, uint32_t link, mr_status status); /* on_closed */
void recorder_deliver(recorder *recorder, link_id link, span head);

/* The oldest message that was sent and not taken; its bytes are valid until fini. False: there is none. */
bool recorder_take(recorder *recorder, link_id *link, span *bytes);
