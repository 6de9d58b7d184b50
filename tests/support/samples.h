/* samples.h — the samples of file formats in tests/formats: their content, and functions that write, copy and change
 * them.
 *
 *   scheduler/               the folder of a scheduler that was stopped: keeper, manifest, files of slots. In 0.1.0 it
 *                            has coordinator.db in place of keeper
 *   scheduler-image/keeper   0.1.0 only: the same values as 0.1.0 wrote them on a machine without SQLite
 *   export/                  what mr_ps_checkpoint_export writes
 *   feedback/rank-2          the feedback file of a rank
 *   model/                   a checkpoint of a model server; from 0.3.0 on
 *
 * All functions assert (cmocka), so only test programs call them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "cluster/metadata_db.h"
#include "miniray/ps.h"
#include "tests/support/ps_fixture.h"

enum {
    SAMPLE_KEYS = 6,
    SAMPLE_DIM = 2,
    SAMPLE_SLOTS = 2,
    SAMPLE_ITEMS = 12,
    SAMPLE_PARTS = 2,
    SAMPLE_TABLES = 3,
    SAMPLE_RANK = 2,
    SAMPLE_GENERATION = 77,
    SAMPLE_STEP = 3,
    SAMPLE_RESTS = 100,
    SAMPLE_FIRST = 10,
    SAMPLE_VALUES_MAX = 16,
    SAMPLE_FILE_MAX = 1 << 20
};

/* ---- Content. */

extern const uint64_t sample_parts[SAMPLE_PARTS]; /* items of each shard of the data */
uint64_t sample_key(int i);
float sample_row(int i);        /* value that each push adds to table "rows" */
float sample_vector(int i);     /* the same for table "vectors" */
float sample_rest(int i);       /* value of the feedback file, table 9 */
float sample_weight(int times); /* value of table "model" after `times` pushes: adagrad, gradients of 1 */

void sample_model_write(const char *folder);
void sample_model_check(const char *folder);
void samples_write(const char *folder); /* writes one sample of each format; the files must not exist */

/* ---- A worker that has the tables of scheduler/. */

typedef struct sample_client {
    mr_ps *ps;
    mr_ps_table *tables[SAMPLE_TABLES];
    uint64_t keys[SAMPLE_KEYS];
    uint32_t lengths[SAMPLE_KEYS];
} sample_client;

ps_fixture sample_world(void);
void sample_client_join(const ps_fixture *fixture, sample_client *client);
void sample_client_leave(sample_client *client);
void sample_client_push(sample_client *client);
void sample_client_check(sample_client *client, int times); /* pulls, and asserts the values after `times` pushes */

/* ---- Files. */

char *sample_path(const char *folder, const char *name);  /* freed by the caller */
char *sample_of(const char *release, const char *name);   /* path of a sample, freed by the caller */
buffer sample_read(const char *path);                     /* finished by the caller */
void sample_copy_files(const char *from, const char *to); /* copies all files of a folder except sockets */
/* Copies into a new folder. */
void sample_copy(const char *release, const char *name, char folder[TEMP_DIR_FOLDER_MAX]);
void sample_remove(const char *folder);
#define SAMPLE_SUMMED_ALL SIZE_MAX
/* Sets one byte. `summed`: number of first bytes whose checksum, which follows them, is computed again; 0: no checksum;
 * SAMPLE_SUMMED_ALL: the checksum ends the file. */
void sample_change(const char *path, size_t offset, uint8_t byte, size_t summed);

/* ---- Values of a metadata store. */

typedef struct sample_values {
    uint64_t generation;
    metadata_storage_record records[SAMPLE_VALUES_MAX]; /* keys and values are owned */
    size_t count;
} sample_values;

/* a metadata_storage_take_fn */
bool sample_values_take(void *context, uint64_t generation, const metadata_storage_record *record);
sample_values sample_values_load(metadata_storage storage);
void sample_values_save(metadata_storage storage, const sample_values *values);
void sample_values_fini(sample_values *values);
span sample_values_of(const sample_values *values, const char *key); /* a missing key fails the test */
