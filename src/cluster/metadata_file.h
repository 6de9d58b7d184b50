/* metadata_file.h — metadata storage in one file of a disk, with room for two copies of the content.
 *
 * A save writes the whole content over the older copy and syncs the file once: no name changes, and the file does not
 * grow. A crash inside a save leaves the newer copy as it was. A new file is written, beside the old one and renamed
 * into place, when it is created, when the content outgrows its room, and after a save that failed (disk.h says why).
 *
 * Damage     An unfinished copy and a damaged one look the same. Therefore the file has a mark: the number of the
 *            newest save that was answered with MR_OK. The mark is written after the sync and becomes durable with the
 *            next one. A file whose newest complete copy is older than its mark is damaged: using the older copy would
 *            decide the same versions again.
 * Not marked A newest copy above the mark may be one that a failed save left in the page cache only. A load writes a
 *            new file with that copy before it is used.
 *
 *   offset          bytes  content; all numbers are little endian
 *   --------------  -----  ------------------------------------------------------------------
 *   0               4      METADATA_FILE_MAGIC, whose last character is the format number
 *                   4      room: bytes for one copy
 *                   8      XXH3 of the 8 bytes before; these 16 bytes never change
 *   512             8      mark
 *                   8      XXH3 of the mark; a mark with another sum is taken for 0
 *   4096            room   copy with an even number
 *   4096 + room     room   copy with an odd number
 *
 *   copy            4      size of the copy
 *                   8      number: one more for every save
 *                   4      generation
 *                   4      records; each: 4 + n key, 8 version, 8 lease, 4 + n value
 *                   8      XXH3 of all bytes of the copy before
 *
 * Format 3 (release 0.1.0) is read, and written as format 4 by the first save: magic, generation, records as above,
 * and the XXH3 of all bytes before. */
#pragma once
#include "cluster/metadata_storage.h"
#include "net/disk.h"

#define METADATA_FILE_MAGIC UINT32_C(0x3450454b) /* "KEP4" */
#define METADATA_FILE_FILE  "keeper"
enum { METADATA_FILE_FORMAT = 4, METADATA_FILE_FORMAT_BEFORE = 3 };

typedef struct metadata_file { /* ready when zero-initialized apart from its disk; nothing to free */
    disk disk;
    uint64_t number; /* number of the last save, also of a failed one */
    size_t room;     /* room of the file for one copy; 0: no file, or one of format 3 */
    bool failed;     /* the last save failed: the content of the file is unknown */
} metadata_file;

metadata_storage metadata_file_storage(metadata_file *file); /* `file` is borrowed for the metadata storage's life */
