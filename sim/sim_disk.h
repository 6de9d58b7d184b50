/* sim_disk.h — simulated disk with exactly the guarantees of net/disk.h.
 *
 * A file has the bytes that the process sees (`seen`), the bytes that are certainly on the medium (`durable`), and the
 * writes since the last sync. At a crash each of those writes is kept, lost, or torn, independently, at the granularity
 * of sectors; a file that was never synced may be gone. A crash may also occur inside an operation. A sync that fails
 * decides the fate of the pending writes at once and forgets them, as Linux does: the process sees bytes that are not
 * on the medium. */
#pragma once
#include "net/disk.h"
#include "sim/sim.h"

enum { SIM_DISK_SECTOR = 512 };

typedef struct sim_disk sim_disk;

typedef struct sim_disk_conditions {
    double write_error, sync_error, read_error; /* shares of operations that return MR_IO */
    double full;                                /* share of writes that return MR_NOMEM, as on ENOSPC */
    double crash;                               /* share of writes, syncs and renames in which the node crashes */
    int64_t delay_min_us, delay_max_us;         /* duration of sync, rename and remove; the node is busy meanwhile */
} sim_disk_conditions;

extern const sim_disk_conditions sim_disk_calm; /* 50 to 200 µs, no failures */

void sim_disk_set(sim_disk *disk, const sim_disk_conditions *conditions);

sim_disk *sim_disk_create(sim_node *node, rng rng);
void sim_disk_destroy(sim_disk *disk);
disk sim_disk_ops(sim_disk *disk);
void sim_disk_crash(sim_disk *disk);      /* writes that were not synced are kept, lost or torn */
void sim_disk_lose(sim_disk *disk);       /* replaces the disk by an empty one; no process may use it at the moment */
const char *sim_disk_rot(sim_disk *disk); /* flips one bit of an existing file and returns its name; NULL: no file */
