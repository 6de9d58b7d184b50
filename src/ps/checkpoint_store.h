/* checkpoint_store.h — checkpoint store: slot snapshots on a disk, and the manifest that makes them a checkpoint.
 *
 * The heads of slots send their cuts (replica.h); each cut is stored as a slot snapshot, a file of its own. When all
 * snapshots of a checkpoint are on disk the manifest is written, in one step: the manifest names the checkpoint and
 * has the place, the size and the checksum of every snapshot. Only then is the checkpoint complete. The manifest of
 * the previous checkpoint is kept under another name: the store keeps CHECKPOINT_STORE_KEPT checkpoints, the newest
 * and some before it. A slot has one place more than that, and a checkpoint in the making uses a place that no kept
 * checkpoint uses: so the store never writes to a kept file; it overwrites leftover files. A slot whose bytes equal
 * those in the newest checkpoint is not written: both checkpoints use the same file.
 *
 * A failed write is tried again with the next snapshots: the existing checkpoint stays the newest, and no process waits
 * for another. The host of the checkpoint store receives the cause (on_trouble).
 *
 *         CUT of a slot                 all slots are there                 manifest durable
 *  none ───────────────► in the making ──────────────────► (its snapshots) ────────────────► complete: the controller
 *                             │  ▲                                                           is told
 *                             └──┘ a later checkpoint, another generation, another process: begins anew
 *
 *   1  A checkpoint that was reported complete is never lost: only a later complete one takes its place.
 *   2  Snapshots of one checkpoint are of one generation and were written by one process of the checkpoint store.
 *   3  A store sealed at the number n completes no checkpoint before it knows a cluster map above n; the seal is on
 *      disk. So a controller that is about to begin a generation knows the newest checkpoint that can exist when its
 *      cluster map is decided.
 *   4  A manifest whose write failed may be on disk: its snapshots are not touched before it has been written.
 *   5  A damaged file is reported by name and stays as it is, for inspection; the newest undamaged checkpoint before
 *      it is then the newest. Without one the checkpoint store does nothing: it does not begin with an empty state.
 *      The same holds for a manifest that is missing while one of the others exists.
 *   6  In an exact store no checkpoint is completed whose slots were cut at different steps of a rank, or inside a
 *      step: heads send a digest of the steps at which they cut, and the store compares the digests.
 *   7  All slots with rounds of a checkpoint were cut at one version: heads send it. Two controllers may order the same
 *      checkpoint at different versions; then it is begun anew.
 *   8  Beside a manifest of another format nothing is used, not even older checkpoints of this format: the release that
 *      wrote that manifest continued from those.
 *   8  A checkpoint of another number of slots than the deployment has (`slot_count`) is not used in place of a damaged
 *      one; before the store takes messages, its slots can be made again in another number (checkpoint_store_recut).
 *
 * checkpoint_store_check_state asserts what memory shows: for 1, that the checkpoint in the making is newer than the
 * complete one; for 2, that its snapshots are counted and of its generation's slots; for 4, that a manifest that may
 * be on disk is complete; for 5 and 8, that without a readable manifest no checkpoint is made.
 *
 *   file                 bytes    what
 *   manifest             4        CHECKPOINT_STORE_MAGIC
 *                        8 8 8 8  number of the checkpoint (0: none yet), 1 + the version of its slots with rounds (0:
 *                                 no slot has), generation, number of the cluster map of the seal
 *                        4        slots; each slot:
 *                        1 8 8 8  place, lsn, size, XXH3 of the snapshot
 *                        8        XXH3 of all bytes before
 *   manifest-<i>                  unchanged manifests of the checkpoints before it
 *   shard-<place>-<slot>          the cut (replica.h), or its encoding by the host's format, with that format's ending
 *
 * Bounds  A file is written piece by piece, without a copy in memory. Snapshots travel in pieces (transfer.h).
 *         CHECKPOINT_STORE_ROOM bytes of incomplete ones are held, but one of any size; a FETCH beyond as many bytes
 *         that are on their way is ignored, and repeated by the replica.
 *
 * Pure except for the disk, whose operations block. */
#pragma once
#include "net/disk.h"
#include "ps/batcher.h"

/* "DEP4": format 4 of checkpoints, the files of slots included. Manifests of format 3, of 0.2.0, are read: they have no
 * version, which is the number there. */
#define CHECKPOINT_STORE_MAGIC    UINT32_C(0x34504544)
#define CHECKPOINT_STORE_MAGIC_3  UINT32_C(0x33504544)
#define CHECKPOINT_STORE_MANIFEST "manifest"
#define CHECKPOINT_STORE_TICK_US  INT64_C(100000)
#define CHECKPOINT_STORE_STALL_US INT64_C(2000000)    /* without a piece, while cuts are refused: their room is freed */
#define CHECKPOINT_STORE_FILE_MAX (UINT64_C(1) << 40) /* bytes of a slot's file */
#define CHECKPOINT_STORE_ROOM     (UINT64_C(512) << 20) /* bytes of snapshots that are received, or sent, at once */
enum { CHECKPOINT_STORE_KEPT = 3, CHECKPOINT_STORE_DAMAGE_MAX = 160 };

typedef struct checkpoint_store checkpoint_store;

typedef struct checkpoint_store_format { /* format of snapshot files; may block, like the disk */
    const char *ending;                  /* ending of file names; static */
    /* decode restores the bytes that encode received; its output buffer is empty. MR_CORRUPT: the file has another
     * format. encode puts the file piece by piece, and is called for a snapshot more than once. */
    mr_status (*encode)(void *context, uint32_t slot, span shard, const byte_sink *file);
    mr_status (*decode)(void *context, span file, buffer *shard);
} checkpoint_store_format;

typedef struct checkpoint_store_options {
    const char *address, *controller; /* address: copied; controller: borrowed for the store's life */
    disk disk;
    const checkpoint_store_format *format; /* borrowed; NULL: files are plain snapshots */
    uint32_t slot_count; /* of the deployment: checkpoints of another number are not used in place of a damaged one; 0:
                          * any number */
    bool exact;          /* all slots of a checkpoint are cut at the same step of each rank (checkpointer.h) */
    void (*send)(void *context, const char *address, span bytes);
    void (*on_whole)(void *context, const checkpoint_store *store); /* another checkpoint is complete; may be NULL */
    /* A disk operation failed: the error has the cause (base/error.h). Called repeatedly while the failure lasts. May
     * be NULL. */
    void (*on_trouble)(void *context, mr_status status);
    void *context;
    size_t piece;  /* bytes of a piece of a large message (transfer.h); 0: the default */
    uint64_t room; /* 0: CHECKPOINT_STORE_ROOM */
} checkpoint_store_options;

/* ---- For programs that only read the files. */

typedef struct checkpoint_store_shard {
    bool there;
    uint8_t place; /* number in its file's name */
    uint64_t lsn, size, sum;
} checkpoint_store_shard;

typedef struct checkpoint_store_manifest {
    uint64_t number, generation; /* number 0: no checkpoint yet */
    uint32_t slot_count, count;  /* count: snapshots that are stored; all of them in a manifest that was read */
    /* digest of the ranks' steps in the first snapshot of a checkpoint in the making (replica_checkpoint.c); 0: ranks
     * were in the middle of steps */
    uint64_t clock;
    bool uneven;                    /* another snapshot has another clock, or none */
    uint64_t version;               /* 1 + the version of slots with rounds; 0: no slot has, or none was saved yet */
    checkpoint_store_shard *shards; /* by slot, owned */
} checkpoint_store_manifest;

enum { CHECKPOINT_STORE_MANIFEST_MAX = 40 + CLUSTER_MAP_SLOTS_MAX * 25 + 8 }; /* bytes */

/* File names: of a slot's snapshot, with the format's ending ("": none), and of the manifest of an earlier
 * checkpoint. */
void checkpoint_store_name_shard(char name[DISK_NAME_MAX], uint8_t place, uint32_t slot, const char *ending);
void checkpoint_store_name_old(char name[DISK_NAME_MAX], size_t index);

/* MR_CORRUPT: the bytes are a manifest of another format, which the error names. Does not detect damage. */
MR_MUST mr_status checkpoint_store_manifest_check(const char *name, span bytes);
MR_MUST mr_status checkpoint_store_check_folder(disk disk); /* the same for all readable manifests of a folder */
MR_MUST mr_status checkpoint_store_manifest_decode(span bytes, checkpoint_store_manifest *out); /* MR_CORRUPT */
void checkpoint_store_manifest_fini(checkpoint_store_manifest *manifest);

/* ---- The checkpoint store. */

checkpoint_store *checkpoint_store_create(const checkpoint_store_options *options, int64_t now_us);
void checkpoint_store_destroy(checkpoint_store *store);

/* `shared`: the buffer that holds the bytes (batcher.h); NULL: they are copied. The store keeps none of them. */
void checkpoint_store_take_bytes(checkpoint_store *store, span bytes, shared_bytes *shared);
int64_t checkpoint_store_next_us(const checkpoint_store *store);
/* the first tick reads the disk; later ones retry a failed write */
void checkpoint_store_tick(checkpoint_store *store, int64_t now_us);

/* Number of the newest complete checkpoint, and the lsn of a slot in it; 0: none, or the disk was not read yet. */
uint64_t checkpoint_store_newest(const checkpoint_store *store);
/* the oldest kept checkpoint; 0: as above. *version: of its slots with rounds; 0: no slot has */
uint64_t checkpoint_store_oldest(const checkpoint_store *store, uint64_t *version);
uint64_t checkpoint_store_lsn(const checkpoint_store *store, uint32_t slot);

/* ---- Another number of slots, before the store takes messages (kv/scheduler/repartition.h). */

uint32_t checkpoint_store_slots(const checkpoint_store *store); /* of the newest checkpoint; 0: as above */
/* Replaces the buffer's content by the snapshot of a slot in the newest checkpoint. MR_CORRUPT: it is damaged; the
 * newest undamaged checkpoint before it is then the newest. */
MR_MUST mr_status checkpoint_store_read(checkpoint_store *store, uint32_t slot, buffer *out);
/* Replaces the buffer's content by the snapshot of a slot. */
typedef mr_status checkpoint_store_make_fn(void *context, uint32_t slot, buffer *out);
/* Replaces the newest checkpoint by one of the same number with `slot_count` slots, whose snapshots have the latest lsn
 * of all slots. The manifest is replaced last, in one step: after a failure or a crash before it the checkpoint is the
 * old one. A failed write of the manifest leaves one of the two. */
MR_MUST mr_status checkpoint_store_recut(checkpoint_store *store, uint32_t slot_count, checkpoint_store_make_fn *make,
                                         void *context);

/* The newest checkpoint cannot be read, and there is none before it: no generation can begin. */
bool checkpoint_store_is_stuck(const checkpoint_store *store);

/* MR_CORRUPT: a needed file was damaged; the error names it and the checkpoint from which the store continues. The
 * controller receives the same text. */
MR_MUST mr_status checkpoint_store_check(const checkpoint_store *store);

void checkpoint_store_check_state(const checkpoint_store *store); /* asserts the invariants above (base/invariants.h) */
