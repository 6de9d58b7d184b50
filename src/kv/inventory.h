/* inventory.h — list of the checkpoints in a scheduler's folder (ps/depot.h), complete or damaged, for the command
 * line.
 *
 * Nothing is changed, and nobody has to run. A scheduler that runs may write another checkpoint meanwhile, whose shards
 * take the places of those of the oldest: what is not whole and not kept any more is not listed.
 *
 * Threads     none. */
#pragma once
#include "net/disk.h"
#include "ps/depot.h"

typedef struct inventory {
    disk disk;
    depot_manifest manifests[DEPOT_KEPT]; /* newest first; each number once */
    uint32_t count;
    char damaged[DEPOT_KEPT][DISK_NAME_MAX]; /* manifests that cannot be read */
    uint32_t damaged_count;
} inventory;

/* MR_NOT_FOUND: there is no such folder, or no checkpoint in it. MR_CORRUPT: one of another format. */
MR_MUST mr_status inventory_open(const char *folder, inventory *out);
void inventory_close(inventory *inventory);

const depot_manifest *inventory_find(const inventory *inventory, uint64_t number); /* NULL: it is not kept */
bool inventory_keeps(const inventory *inventory, uint64_t number);                 /* the folder has it now */

/* The file of a slot, replacing what is in the buffer, and its name. MR_CORRUPT: it is not as the manifest has it. */
MR_MUST mr_status inventory_read(const inventory *inventory, const depot_manifest *manifest, uint32_t slot,
                                 char name[DISK_NAME_MAX], buffer *out);
int64_t inventory_written_us(const char *folder, const char *name); /* since 1970; 0: there is no such file */
