/* detector.h — timeout failure detector.
 *
 * Pure: its inputs are heartbeats and the time. Every member sends a heartbeat each interval_us; a member without a
 * heartbeat for suspect_us is suspected, with a fixed bound, because others rely on the bound:
 *
 *   A member that stops is suspected at most suspect_us + interval_us after its last heartbeat arrived, provided that
 *   the watching process was running. Each pause of the watching process adds its length.
 *
 * Pauses: a process that was stopped (a debugger, a paused machine, a disk that hung) continues without heartbeats from
 * any member. The gap between two ticks shows that the watching process itself was paused, and the silence in that time
 * does not count.
 *
 * A hint (the link to the member broke) suffices together with two intervals of silence after it: a dead process is
 * found sooner, and one whose link merely broke has sent a heartbeat again by then.
 *
 * A suspicion may be wrong: nothing that must be safe depends on it. But a suspicion costs work: a member that is taken
 * for dead has to be replaced or filled again, often where there is too much work already. So a member that was
 * suspected and was alive all the time may be forgiven, DETECTOR_FORGIVEN_MAX times: from then on it is suspected only
 * after four times as long a silence; one forgiveness expires after DETECTOR_CALM times suspect_us without a suspicion.
 * A hint counts as before.
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
    int64_t interval_us; /* time between heartbeats, and between ticks */
    int64_t suspect_us;  /* silence that causes a suspicion; at least three intervals */
} detector_options;

typedef struct detector detector;

detector *detector_create(const detector_options *options, int64_t now_us); /* copies the options */
void detector_destroy(detector *detector);

/* begins to watch, as if a heartbeat had just arrived */
void detector_watch(detector *detector, uint64_t id, int64_t now_us);
void detector_forget(detector *detector, uint64_t id); /* no-op if the member is not watched */
void detector_forget_all(detector *detector);
/* a heartbeat arrived; no-op if the member is not watched */
void detector_heard(detector *detector, uint64_t id, int64_t now_us);
/* forgives a wrong suspicion; no-op if the member is not suspected */
void detector_forgive(detector *detector, uint64_t id, int64_t now_us);
void detector_hint(detector *detector, uint64_t id, int64_t now_us);

/* Called every interval_us. Returns how long this process was paused since the last tick; 0: not paused. */
int64_t detector_tick(detector *detector, int64_t now_us);

/* State as of the last tick. */
bool detector_suspects(const detector *detector, uint64_t id);
bool detector_doubts(const detector *detector, uint64_t id); /* suspected, or a hint without a heartbeat since */
bool detector_hinted(const detector *detector, uint64_t id); /* a hint without a heartbeat since */
size_t detector_suspect_count(const detector *detector);
bool detector_watches(const detector *detector, uint64_t id);
void detector_check(const detector *detector); /* asserts the invariants above (base/invariants.h) */
