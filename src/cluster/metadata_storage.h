/* metadata_storage.h — durable storage interface of the metadata store: an operation table.
 *
 * A metadata storage has one generation and some records, each a key with its version, the lease that it is attached
 * to, and its value. A save is durable before it answers MR_OK, and atomic: after a crash inside it, or after a
 * failure, the metadata storage has its earlier content, or the saved one. The operations block, for as long as the
 * device takes.
 *
 * Backend: a file (metadata_file.h), on a folder of this machine or in the simulator. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

typedef struct metadata_storage_record {
    span key; /* borrowed: when loading for the call, otherwise from the saver */
    uint64_t version;
    uint64_t lease; /* 0: none */
    span value;
} metadata_storage_record;

typedef struct metadata_storage_content { /* borrowed for the call */
    uint64_t generation;
    const metadata_storage_record *records;
    size_t count;
} metadata_storage_content;

/* Takes one stored record. False: the record is invalid, so the metadata storage is damaged. */
typedef bool metadata_storage_take_fn(void *context, uint64_t generation, const metadata_storage_record *record);

typedef struct metadata_storage_ops {
    const char *name;

    /* Passes the records to `take`, and sets the generation. MR_NOT_FOUND: nothing was ever saved. MR_CORRUPT, MR_IO,
     * … */
    mr_status (*load)(void *self, metadata_storage_take_fn *take, void *context, uint64_t *generation);

    /* Saves `content`, which differs from the last save in the record with the index `changed`, which may be new. */
    mr_status (*save)(void *self, const metadata_storage_content *content, size_t changed);

    /* Replaces everything by a generation without records. */
    mr_status (*begin)(void *self, uint64_t generation);
} metadata_storage_ops;

typedef struct metadata_storage { /* two words, passed by value */
    const metadata_storage_ops *ops;
    void *self;
} metadata_storage;
