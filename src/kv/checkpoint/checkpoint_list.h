/* checkpoint_list.h — list of the checkpoints in a scheduler's folder (ps/checkpoint_store.h), complete or damaged, for
 * the command line.
 *
 * The list only reads, and needs no running process. A running scheduler may write another checkpoint meanwhile, whose
 * slot snapshots replace those of the oldest; checkpoints that thereby become incomplete are not listed.
 *
 * Threads     none. */
#pragma once
#include "net/disk.h"
#include "ps/checkpoint_store.h"

typedef struct checkpoint_list {
    disk disk;
    checkpoint_store_manifest manifests[CHECKPOINT_STORE_KEPT]; /* newest first, without repetition */
    uint32_t count;
    char damaged[CHECKPOINT_STORE_KEPT][DISK_NAME_MAX]; /* names of unreadable manifests */
    uint32_t damaged_count;
} checkpoint_list;

/* MR_NOT_FOUND: no such folder, or no checkpoint in it. MR_CORRUPT: a checkpoint of another format. */
MR_MUST mr_status checkpoint_list_open(const char *folder, checkpoint_list *out);
void checkpoint_list_close(checkpoint_list *list);

/* NULL: not kept. */
const checkpoint_store_manifest *checkpoint_list_find(const checkpoint_list *list, uint64_t number);
/* whether the folder has the checkpoint now */
bool checkpoint_list_keeps(const checkpoint_list *list, uint64_t number);

/* Reads the file of a slot into the buffer, replacing its content, and sets its name. MR_CORRUPT: the file differs from
 * the manifest. */
MR_MUST mr_status checkpoint_list_read(const checkpoint_list *list, const checkpoint_store_manifest *manifest,
                                       uint32_t slot, char name[DISK_NAME_MAX], buffer *out);
int64_t checkpoint_list_written_us(const char *folder, const char *name); /* since 1970; 0: no such file */
