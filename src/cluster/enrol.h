/* enrol.h — acquisition of an incarnation: a number that no earlier or later process of the same member has.
 *
 * It is the version of a value at the coordinator, which this process has written. There are ENROL_KEYS such values,
 * and a member always uses the same one; so its incarnations grow, and a thousand that start at once are in each
 * other's way by the dozen only. A process that lost the race tries again from the value it finds, after a random delay
 * that grows: so all of them together ask a few times each, not as often as there are others.
 *
 *   get ── what is there ──► swap ── decided ──► done
 *    ▲                        │ another was faster, or nobody can tell
 *    └──────── later ─────────┘
 *
 * A number that was written without an answer belongs to no process. A coordinator that has lost its disk may give a
 * number below one of an earlier process, if nobody has told it yet what it has forgotten (keeper.h): a process that
 * learns of it acquires another incarnation, above the number it was told. Pure: driven by answers of the coordinator
 * and ticks. */
#pragma once
#include "base/rng.h"
#include "cluster/coordinator.h"

enum { ENROL_KEYS = 16 };
#define ENROL_WAIT_US     INT64_C(50000) /* at most, after the first failure; twice that after each further one */
#define ENROL_WAIT_MAX_US INT64_C(1600000)

typedef void enrol_done_fn(void *context, uint64_t incarnation);

typedef struct enrol enrol;

/* `done` is called once, and once more after each enrol_again that finds it done. The coordinator and the rng are
 * borrowed for its life. */
enrol *enrol_create(coordinator coordinator, rng *rng, uint32_t member, int64_t now_us, enrol_done_fn *done,
                    void *context);
/* An earlier process had `known`: it takes another incarnation, above that. */
void enrol_again(enrol *enrol, uint64_t known, int64_t now_us);
void enrol_destroy(enrol *enrol); /* the coordinator owes it no answer any more */
int64_t enrol_next_us(const enrol *enrol);
void enrol_tick(enrol *enrol, int64_t now_us);
