/* metadata_storage.h — durable storage interface of the metadata store: an operation table.
 *
 * A metadata storage has one generation and some records, each a key with its version, the lease that it hangs on, and
 * its value. A save is durable before it answers MR_OK, and whole: after a crash inside it, or after a failure, the
 * metadata storage has its earlier content, or the saved one. The slots block, for as long as the device takes.
 *
 * Backend: a file (metadata_file.h), on a folder of this machine or in the simulator. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

typedef struct metadata_storage_record {
    span key; /* borrowed: while loading for the call, else the saver's */
    uint64_t version;
    uint64_t lease; /* 0: none */
    span value;
} metadata_storage_record;

typedef struct metadata_storage_content { /* borrowed for the call */
    uint64_t generation;
    const metadata_storage_record *records;
    size_t count;
} metadata_storage_content;

/* One record that is there. False: it cannot be one; the metadata storage is damaged. */
typedef bool metadata_storage_take_fn(void *context, uint64_t generation, const metadata_storage_record *record);

typedef struct metadata_storage_ops {
    const char *name;

    /* Gives the records to `take`, and then the generation. MR_NOT_FOUND: nothing was ever saved. MR_CORRUPT, MR_IO, …
     */
    mr_status (*load)(void *self, metadata_storage_take_fn *take, void *context, uint64_t *generation);

    /* `content` differs from the last save in the record with the index `changed`, which may be new. */
    mr_status (*save)(void *self, const metadata_storage_content *content, size_t changed);

    /* A generation without any record takes the place of everything. */
    mr_status (*begin)(void *self, uint64_t generation);
} metadata_storage_ops;

typedef struct metadata_storage { /* two words, passed by value */
    const metadata_storage_ops *ops;
    void *self;
} metadata_storage;
