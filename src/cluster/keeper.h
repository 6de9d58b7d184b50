/* keeper.h — the coordinator's memory: named values with versions, on disk.
 *
 * A swap is answered MR_OK only after the whole image of all values is written anew, synced and renamed into place. If
 * any of that fails the swap is not decided: nobody is told that it is, the value in memory stays the old one, and
 * another swap to the same version may yet succeed and then replaces on disk whatever the failure left there. After a
 * restart the image on disk is what was decided; one that is damaged is refused, because whoever decides without
 * knowing what was decided decides twice.
 *
 * Bounds      KEEPER_KEYS_MAX values, KEEPER_VALUE_MAX bytes each.
 * Ownership   keys and values are copied.
 *
 *   image    bytes  what
 *   -------  -----  ------------------------------------------------
 *            4      KEEPER_MAGIC
 *            4      values; each: 4 + n key, 8 version, 4 + n value
 *            8      XXH3 of all bytes before */
#pragma once
#include "cluster/letter.h"
#include "net/disk.h"

#define KEEPER_MAGIC UINT32_C(0x3150454b)
enum { KEEPER_KEYS_MAX = 64, KEEPER_KEY_MAX = LETTER_KEY_MAX, KEEPER_VALUE_MAX = LETTER_VALUE_MAX };
#define KEEPER_FILE "keeper"

typedef struct keeper keeper;

MR_MUST mr_status keeper_open(disk disk, keeper **out); /* a folder without an image is a new keeper; MR_CORRUPT, … */
void keeper_close(keeper *keeper);

/* *value is borrowed until the next swap. Version 0: never written. */
void keeper_get(const keeper *keeper, span key, uint64_t *version, span *value);

/* MR_STALE: `expected` is not the newest version. MR_INVALID, MR_TOO_LARGE: not a key or a value, or too many. */
MR_MUST mr_status keeper_swap(keeper *keeper, span key, uint64_t expected, span value);

/* Answers a letter of kind GET or SWAP. The answer borrows its value from the keeper, until the next swap. */
void keeper_answer(keeper *keeper, const letter *question, letter *answer);

/* Switches that make the simulator prove that each mechanism is needed. Never set outside it. */
typedef struct keeper_mutations {
    bool no_sync;    /* answers before the image is durable */
    bool no_compare; /* takes any swap for the version it asks for */
} keeper_mutations;
void keeper_mutate(keeper *keeper, keeper_mutations mutations);
