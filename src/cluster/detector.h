/* detector.h — timeout failure detector.
 *
 * Pure: its inputs are heartbeats and the time. Every member sends a heartbeat each interval_us; one that was not
 * heard for suspect_us is suspected, with a fixed bound, because others rely on the bound:
 *
 *   A member that stops is suspected at most suspect_us + interval_us after its last heartbeat came, provided that the
 *   watcher was running. Each time the watcher itself stands still, that time is added.
 *
 * Standing still: a process that was stopped (a debugger, a paused machine, a disk that hung) wakes up with nothing
 * heard from any member. The gap between two ticks shows that the silence was its own, and none of it counts.
 *
 * A hint (the link to it broke) is enough together with two intervals of silence after it: a process that died is found
 * sooner, and one whose link merely broke has been heard again by then.
 *
 * A suspicion is an opinion, not a fact: nothing that must be safe depends on it. But a suspicion costs work: a
 * member that is taken for dead has to be replaced or filled again, often where there is too much work already. So a
 * member that was suspected and was alive all the time may be forgiven, DETECTOR_FORGIVEN_MAX times: from then on its
 * silence counts after four times as long; and after a quarter again once it was not suspected for DETECTOR_CALM times
 * suspect_us. A hint counts as before.
 *
 * Invariants (detector_check)
 *   1  detector_suspect_count counts those that are suspected.
 *   2  No member is forgiven more often than DETECTOR_FORGIVEN_MAX times. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DETECTOR_FORGIVEN_MAX = 2, DETECTOR_CALM = 32 };

typedef struct detector_options {
    int64_t interval_us; /* between heartbeats, and between ticks */
    int64_t suspect_us;  /* of silence; at least three intervals */
} detector_options;

typedef struct detector detector;

detector *detector_create(const detector_options *options, int64_t now_us); /* copies the options */
void detector_destroy(detector *detector);

void detector_watch(detector *detector, uint64_t id, int64_t now_us); /* from now on; begins as if heard now */
void detector_forget(detector *detector, uint64_t id);                /* no-op if it is not watched */
void detector_forget_all(detector *detector);
void detector_heard(detector *detector, uint64_t id, int64_t now_us);   /* no-op if it is not watched */
void detector_forgive(detector *detector, uint64_t id, int64_t now_us); /* no-op if it is not suspected */
void detector_hint(detector *detector, uint64_t id, int64_t now_us);

/* Call every interval_us. Returns how long this process stood still since the last tick; 0: it did not. */
int64_t detector_tick(detector *detector, int64_t now_us);

/* As of the last tick. */
bool detector_suspects(const detector *detector, uint64_t id);
bool detector_doubts(const detector *detector, uint64_t id); /* or it was hinted at, and not heard since */
size_t detector_suspect_count(const detector *detector);
bool detector_watches(const detector *detector, uint64_t id);
void detector_check(const detector *detector); /* asserts the invariants above (base/invariants.h) */
