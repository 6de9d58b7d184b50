/* checkpoint_store.h — checkpoint store: slot snapshots on a disk, and the manifest that makes them a checkpoint.
 *
 * The heads of slots send their cuts (replica.h); each is a shard, a file of its own. When all shards of a checkpoint
 * are on disk the manifest is written, in one step: it names the checkpoint and has the place, the size and the
 * checksum of every shard. Only then is the checkpoint real. The manifest of the one before it is kept under another
 * name: CHECKPOINT_STORE_KEPT checkpoints are there, the newest and some before it. A slot has one place more than
 * that, and what is being made uses one that no kept checkpoint uses: so nothing that is kept is ever written to, and
 * what is left over is written over. A slot whose bytes are those of the newest checkpoint is not written: its shard is
 * shared.
 *
 * What cannot be written is tried again, with what comes later: the checkpoint that is there stays the newest, and
 * nobody waits for another. Whoever hosts the checkpoint store is told why (on_trouble).
 *
 *         CUT of a slot                 all slots are there              manifest durable
 *  none ───────────────► in the making ──────────────────► (its shards) ────────────────► whole: told to the controller
 *                             │  ▲
 *                             └──┘ a later checkpoint, another generation, another process: begins anew
 *
 *   1  What was told to be whole is never lost: a later one takes its place, whole.
 *  2  Shards of one checkpoint are of one generation and were written by one process of the checkpoint store.
 *  3  Sealed at the number n it makes nothing whole before it knows a cluster map behind n; that is on disk, too. So a
 *  controller that is about to begin a generation knows the newest checkpoint that there can be when its cluster map is
 *      decided.
 *   4  A manifest that could not be written may be there: its shards are not touched before it has been written.
 *   5  What is damaged is told, with its name, and stays as it is, for somebody to look at; the newest one before it
 *  that is not is then the newest. Without any such the checkpoint store does nothing: it does not begin from nothing.
 *  So it
 *      is with a manifest that is not there, if one of the others is.
 *   6  If checkpoints are to be exact, none is made whole whose slots were cut at different steps of a rank, or in the
 *      middle of one: heads say at which steps they cut, as a digest, and it is compared.
 *   7  Beside a manifest of another format nothing is used, older checkpoints of this format neither: the release that
 *      wrote it continued from those.
 *
 * checkpoint_store_check_state asserts what shows of these in memory: of 1 that one in the making is newer than the one
 * that is whole; of 2 that its shards are counted and of its generation's slots; of 4 that what may be on disk is
 * complete; of 5 and 7 that without a manifest that could be read nothing is made.
 *
 *   file                 bytes  what
 *   manifest             4  CHECKPOINT_STORE_MAGIC
 *                  8 8 8  number of the checkpoint (0: none yet), generation, number of the cluster map of the seal
 *                        4      slots; each slot:
 *                        1 8 8 8  place, lsn, size, XXH3 of the shard
 *                        8      XXH3 of all bytes before
 *   manifest-<i>                of checkpoints before it, as they were
 *   shard-<place>-<slot>        as it was cut (replica.h), or what the format of the host makes of it, with its ending
 *
 * Pure but for the disk, whose operations block. */
#pragma once
#include "net/disk.h"
#include "ps/batcher.h"

/* "DEP3": format 3 of checkpoints, the files of slots included */
#define CHECKPOINT_STORE_MAGIC    UINT32_C(0x33504544)
#define CHECKPOINT_STORE_MANIFEST "manifest"
#define CHECKPOINT_STORE_TICK_US  INT64_C(100000)
enum {
    CHECKPOINT_STORE_SHARD_MAX = SLOT_MESSAGE_PAYLOAD_MAX,
    CHECKPOINT_STORE_FILE_MAX = CHECKPOINT_STORE_SHARD_MAX + (32 << 20),
    CHECKPOINT_STORE_KEPT = 3,
    CHECKPOINT_STORE_DAMAGE_MAX = 160
};

typedef struct checkpoint_store checkpoint_store;

typedef struct checkpoint_store_format { /* of the files of shards; may block, like the disk */
    const char *ending;                  /* of their names; static */
    /* What comes back is what went in, byte for byte. Into an empty buffer. MR_CORRUPT: it is no such file. */
    mr_status (*encode)(void *context, uint32_t slot, span shard, buffer *file);
    mr_status (*decode)(void *context, span file, buffer *shard);
} checkpoint_store_format;

typedef struct checkpoint_store_options {
    const char *address, *controller; /* copied */
    disk disk;
    const checkpoint_store_format *format; /* borrowed; NULL: files are shards */
    bool exact; /* all slots of a checkpoint are cut at the same step of each rank (checkpointer.h) */
    void (*send)(void *context, const char *address, span bytes);
    void (*on_whole)(void *context, const checkpoint_store *store); /* there is another one that is real; may be NULL */
    /* The disk does not do what it should: the error says what (base/error.h). Again and again while that is so. May be
     * NULL. */
    void (*on_trouble)(void *context, mr_status status);
    void *context;
} checkpoint_store_options;

/* ---- For those who only look at the files. */

typedef struct checkpoint_store_shard {
    bool there;
    uint8_t place; /* of its file */
    uint64_t lsn, size, sum;
} checkpoint_store_shard;

typedef struct checkpoint_store_manifest {
    uint64_t number, generation; /* number 0: of no checkpoint yet */
    uint32_t slot_count, count;  /* count: of the shards that are there; in a manifest that was read all are */
    /* of one that is made: of its first shard (replica_checkpoint.c); 0: its ranks were not between steps */
    uint64_t clock;
    bool uneven;                    /* another shard has another clock, or none */
    checkpoint_store_shard *shards; /* by slot, owned */
} checkpoint_store_manifest;

enum { CHECKPOINT_STORE_MANIFEST_MAX = 32 + CLUSTER_MAP_SLOTS_MAX * 25 + 8 }; /* bytes */

/* The files: of a slot, with the ending of the format ("": none), and of the manifest of an earlier checkpoint. */
void checkpoint_store_name_shard(char name[DISK_NAME_MAX], uint8_t place, uint32_t slot, const char *ending);
void checkpoint_store_name_old(char name[DISK_NAME_MAX], size_t index);

/* MR_CORRUPT: these are the bytes of a manifest of another format, which the error names. Damage is not its matter. */
MR_MUST mr_status checkpoint_store_manifest_check(const char *name, span bytes);
MR_MUST mr_status checkpoint_store_check_folder(disk disk); /* the same for all manifests that can be read there */
MR_MUST mr_status checkpoint_store_manifest_decode(span bytes, checkpoint_store_manifest *out); /* MR_CORRUPT */
void checkpoint_store_manifest_fini(checkpoint_store_manifest *manifest);

/* ---- The checkpoint store. */

checkpoint_store *checkpoint_store_create(const checkpoint_store_options *options, int64_t now_us);
void checkpoint_store_destroy(checkpoint_store *store);

/* Where it lies (batcher.h), NULL: it is copied; nothing of it is kept. */
void checkpoint_store_take_bytes(checkpoint_store *store, span bytes, shared_bytes *shared);
int64_t checkpoint_store_next_us(const checkpoint_store *store);
/* reads the disk at first; makes whole what could not be written */
void checkpoint_store_tick(checkpoint_store *store, int64_t now_us);

/* The checkpoint that is whole; 0: none, or the disk could not be read yet. And where its slots were cut. */
uint64_t checkpoint_store_newest(const checkpoint_store *store);
uint64_t checkpoint_store_oldest(const checkpoint_store *store); /* of those that are kept; 0: likewise */
uint64_t checkpoint_store_lsn(const checkpoint_store *store, uint32_t slot);

/* What is needed of the newest checkpoint cannot be read, and there is none before it: nobody can begin. */
bool checkpoint_store_is_stuck(const checkpoint_store *store);

/* MR_CORRUPT: something was damaged when it was needed; the error says what, and from which checkpoint it goes on. The
 * controller is told the same. */
MR_MUST mr_status checkpoint_store_check(const checkpoint_store *store);

void checkpoint_store_check_state(const checkpoint_store *store); /* asserts the invariants above (base/invariants.h) */
