/* spill_file.h — spill file: one unnamed file, and the thread that writes and reads it.
 *
 * The file is unlinked before the first byte, so nothing is left of it however this process ends. The place of an
 * object in it is decided here (net/shm/extent_allocator.h, a pure allocator of offsets); forgotten objects are punched
 * out of the file. A checksum of each object is kept in memory: a load returns the bytes that were written, or
 * MR_CORRUPT.
 *
 * Threads  save, load, forget and poll are called by the loop's thread and never wait. They hand jobs to the helper,
 * which does them in order; the two meet at one queue with a mutex. */
#pragma once
#include "miniray/status.h"
#include "store/store_server.h"

typedef struct spill_file spill_file;

/* Makes the folder where it is missing (mode 0700). `bytes_max` 0: as much as the disk takes. */
MR_MUST mr_status spill_file_open(const char *folder, uint64_t bytes_max, spill_file **out);
void spill_file_close(spill_file *spill); /* waits for the job under way; the others are dropped, unanswered */

/* As in store_server_ops. MR_NOMEM: bytes_max is reached. */
MR_MUST mr_status spill_file_save(spill_file *spill, uint64_t ticket, const void *data, uint64_t size);
MR_MUST mr_status spill_file_load(spill_file *spill, uint64_t ticket, uint64_t file, void *data, uint64_t size);
void spill_file_forget(spill_file *spill, uint64_t file);

int spill_file_fd(const spill_file *spill); /* readable when spill_file_poll has something to report */
/* Reports ended jobs to the store server. The thread's last error is the job's while store_server_moved is called. */
void spill_file_poll(spill_file *spill, store_server *server, int64_t now_us);
