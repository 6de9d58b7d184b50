/* keeper.h — the coordinator's memory: named values with versions, on disk.
 *
 * A swap is answered MR_OK only after the whole image of all values is written anew, synced and renamed into place. If
 * any of that fails the swap is not decided: nobody is told that it is, the value in memory stays the old one, and
 * another swap to the same version may yet succeed and then replaces on disk whatever the failure left there. After a
 * restart the image on disk is what was decided; one that is damaged is refused, because whoever decides without
 * knowing what was decided decides twice.
 *
 * Forgetting  A keeper whose disk was lost, or exchanged for an older copy, does not know what it has forgotten. Two
 *             things keep it from deciding again what was decided (coordinator.h has the generations):
 *               - a keeper that finds no image draws its generation by chance;
 *               - whoever asks says the newest version it knows. If that is newer than what is here, the keeper knows
 *                 that it has forgotten, and begins a generation above it, without any value, on disk before it
 * answers. All members then find themselves in no view, and enter again: what the lost views said of them, who was left
 * out above all, nobody knows any more. There is no list of members to ask and no time to wait: one that is away for
 * now is heard when it comes back. Not seen is an older copy of the image while nobody who knows more asks: do not
 * restore one, remove it.
 *
 * Bounds      KEEPER_KEYS_MAX values, KEEPER_VALUE_MAX bytes each.
 * Ownership   keys and values are copied.
 *
 *   image    bytes  what
 *   -------  -----  ------------------------------------------------
 *            4      KEEPER_MAGIC
 *            4      generation
 *            4      values; each: 4 + n key, 8 version, 4 + n value
 *            8      XXH3 of all bytes before */
#pragma once
#include "base/rng.h"
#include "cluster/coordinator.h"
#include "cluster/letter.h"
#include "net/disk.h"

#define KEEPER_MAGIC UINT32_C(0x3250454b)
enum { KEEPER_KEYS_MAX = 64, KEEPER_KEY_MAX = LETTER_KEY_MAX, KEEPER_VALUE_MAX = LETTER_VALUE_MAX };
#define KEEPER_FILE "keeper"

typedef struct keeper keeper;

/* A disk without an image is a new keeper. MR_CORRUPT, … `rng` is borrowed for its life. */
MR_MUST mr_status keeper_open(disk disk, rng *rng, keeper **out);
void keeper_close(keeper *keeper);

/* *value is borrowed until the next swap. A version with the count 0: never written. */
void keeper_get(const keeper *keeper, span key, uint64_t *version, span *value);

/* MR_STALE: `expected` is not the newest version. MR_INVALID, MR_TOO_LARGE: not a key or a value, or too many. */
MR_MUST mr_status keeper_swap(keeper *keeper, span key, uint64_t expected, span value);

/* Somebody knows this version of that key. MR_OK: so does this keeper, now. Else it has forgotten, and could not begin
 * another generation: nothing may be answered. */
MR_MUST mr_status keeper_heed(keeper *keeper, span key, uint64_t known);

/* Answers a letter of kind GET or SWAP. The answer borrows its value from the keeper, until the next answer. */
void keeper_answer(keeper *keeper, const letter *question, letter *answer);

/* Switches that make the simulator prove that each mechanism is needed. Never set outside it. */
typedef struct keeper_mutations {
    bool no_sync;    /* answers before the image is durable */
    bool no_compare; /* takes any swap for the version it asks for */
    bool no_chance;  /* every keeper begins with the same generation */
    bool deaf;       /* does not heed what others know */
} keeper_mutations;
void keeper_mutate(keeper *keeper, keeper_mutations mutations);
