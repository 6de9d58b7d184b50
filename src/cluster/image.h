/* image.h — an archive that is one file of a disk, written anew for each change.
 *
 * A change writes the whole image beside the file, syncs it, and renames it into place. Meant for a few values that
 * change now and then, and for the simulator, whose disks fail in every way that disks do.
 *
 *   bytes  what
 *   -----  ------------------------------------------------------------------
 *   4      IMAGE_MAGIC, whose last character is the format number
 *   4      generation
 *   4      records; each: 4 + n key, 8 version, 8 lease, 4 + n value
 *   8      XXH3 of all bytes before */
#pragma once
#include "cluster/archive.h"
#include "net/disk.h"

#define IMAGE_MAGIC UINT32_C(0x3350454b) /* "KEP3" */
#define IMAGE_FILE  "keeper"

typedef struct image { /* zero-initialized with its disk it is ready; nothing to free */
    disk disk;
} image;

archive image_archive(image *image); /* borrowed for the archive's life */
