/* spill_file.h — spill file: one unnamed file, and the helper thread that writes and reads it.
 *
 * The file is unlinked before the first byte is written, so it vanishes however this process ends. This module
 * allocates the ranges of objects in the file (net/shm/extent_allocator.h); the range of a removed object becomes a
 * hole. A checksum of each object is kept in memory: a load returns the bytes that were written, or MR_CORRUPT.
 *
 * Threads  save, load, forget and poll are called by the loop's thread and never wait for I/O. They append jobs to a
 * queue, protected by a mutex; the helper thread runs the jobs in order. */
#pragma once
#include "miniray/status.h"
#include "store/store_server.h"

typedef struct spill_file spill_file;

/* Creates the folder if it is missing (mode 0700). `bytes_max` 0: no limit but the disk. */
MR_MUST mr_status spill_file_open(const char *folder, uint64_t bytes_max, spill_file **out);
void spill_file_close(spill_file *spill); /* waits for the running job; drops the others */

/* As in store_server_ops. MR_NOMEM: bytes_max is reached. */
MR_MUST mr_status spill_file_save(spill_file *spill, uint64_t ticket, const void *data, uint64_t size);
MR_MUST mr_status spill_file_load(spill_file *spill, uint64_t ticket, uint64_t file, void *data, uint64_t size);
void spill_file_forget(spill_file *spill, uint64_t file);

int spill_file_fd(const spill_file *spill); /* readable when spill_file_poll has something to report */
/* Reports ended jobs with store_server_moved; during that call the thread's last error is the job's. */
void spill_file_poll(spill_file *spill, store_server *server, int64_t now_us);
