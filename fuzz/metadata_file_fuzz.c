/* metadata_file_fuzz.c — the file of the metadata store: the input as a whole file of format 3 or 4, and as the newest
 * copy in a file of format 4, with correct checksums. */
#include "base/format.h"
#include "cluster/metadata_db.h"
#include "cluster/metadata_file.h"
#include "fuzz/fix_checksum.h"

static void try(disk disk) {
    span value;
    rng rng;
    rng_init(&rng, 1);
    metadata_db *db;
    metadata_file file = {.disk = disk};
    mr_status status = metadata_db_open(metadata_file_storage(&file), &rng, 0, &db);
    if (status != MR_OK) {
        MR_ASSERT(status == MR_CORRUPT || status == MR_TOO_LARGE || status == MR_DENIED);
        return;
    }
    uint64_t version;
    metadata_db_get(db, span_of("view", 4), &version, &value);
    MR_ASSERT((metadata_store_count(version) != 0 || value.size == 0) && value.size <= METADATA_DB_VALUE_MAX);
    metadata_db_close(db);
}

enum { MARK_AT = 512, COPIES_AT = 4096, ROOM = 4096, FILE_SIZE = COPIES_AT + 2 * ROOM };

static void put_sum(uint8_t *bytes, size_t size) {
    uint64_t sum = format_sum(span_of(bytes, size));
    memcpy(bytes + size, &sum, sizeof sum);
}

static void try_copy(const uint8_t *data, size_t size) {
    static uint8_t file[FILE_SIZE];
    const uint32_t head[2] = {METADATA_FILE_MAGIC, ROOM}, all = (uint32_t)size + 12;
    uint64_t number;
    if (size < sizeof number || all > ROOM) return;
    memcpy(&number, data, sizeof number);
    uint8_t *copy = file + COPIES_AT + (number % 2 == 0 ? 0 : ROOM);
    memset(file, 0, sizeof file);
    memcpy(file, head, sizeof head);
    put_sum(file, sizeof head);
    memcpy(file + MARK_AT, &number, sizeof number);
    put_sum(file + MARK_AT, sizeof number);
    memcpy(copy, &all, sizeof all);
    memcpy(copy + sizeof all, data, size);
    put_sum(copy, size + sizeof all);
    fix_checksum_try(METADATA_FILE_FILE, file, sizeof file, try);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fix_checksum_try(METADATA_FILE_FILE, data, size, try);
    try_copy(data, size);
    return 0;
}
