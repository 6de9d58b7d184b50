/* snapshot_file.h — slot snapshot (ps/replica_snapshot.c) as a safetensors file, and back.
 *
 * Tables are split into named tensors, so that any reader of safetensors can read them:
 *
 *   tensor                               dtype  content
 *   -----------------------------------  -----  -----------------------------------------------------------------------
 *   .slot/version, .slot/checkpoint      U64    the slot's version, the last checkpoint
 *   .slot/clock                          U64    by rank: the last applied seq
 *   .slot/rounds                         U8     frozen ranks, and the members of the previous round
 *   .slot/values                         U8     values other than tables: those of the round state
 *   .shelf/head                          U8     whether versions are kept, and the one before is meant; ids of dropped
 *                                               tables
 *   TABLE/definition, TABLE/head         U8     table_schema.h; version and counters, as in engine_snapshot.c
 *   TABLE/keys, /seen, /touches          U64, U32, U32   of a sparse table, in the order of their hashes
 *   TABLE/values, TABLE/state            F32 or I64, U8  of the keys that have rows: [rows, dim], [rows, bytes]
 *   TABLE/keys, /lengths, /values        U64, U32, F32 or I64   of vectors, concatenated
 *   TABLE/ARRAY/BLOCK/values             F32 or I64   of a dense table; /before: previous version; /state-0 …: F32
 *   TABLE/blocks, TABLE/piece            U8     the heads of blocks, or of the rows
 *   TABLE/undo                           U8     previous values of the last change's keys (undo_log.h)
 *
 * Texts of the file: "format" (SNAPSHOT_FILE_FORMAT), "slot", "tables" (their number), and for the table i "table.i"
 * (its name), "table.i.array.k" and "table.i.shape.k" (the name of the array k, and its shape, as in "8x5").
 *
 * Decoding the file gives the same bytes. A snapshot for which that does not hold is stored as one tensor, .slot/shard:
 * one with other bytes than engine_snapshot.c writes, or with names of tables and arrays that make equal names of
 * tensors. The file of a snapshot of up to SNAPSHOT_FILE_CHECKED bytes is also decoded and compared before it is
 * written. A larger one is written piece by piece, without a copy.
 *
 * Pure. */
#pragma once
#include "base/safetensors.h"
#include "kv/control/table_catalog.h"

#define SNAPSHOT_FILE_NAME "miniray slot "
/* Another number also needs another CHECKPOINT_STORE_MAGIC. Format 1, of 0.2.0, has no .shelf/head of a version
 * before. */
#define SNAPSHOT_FILE_FORMAT SNAPSHOT_FILE_NAME "2"

enum { SNAPSHOT_FILE_CHECKED = 8 << 20 };

/* Encodes a snapshot with the table names of the catalog; a table without one is named "table-ID". One of at most
 * `checked` bytes is checked as described. MR_NOMEM; errors of the sink, except MR_CORRUPT and MR_TOO_LARGE. */
MR_MUST mr_status snapshot_file_encode(uint32_t slot, span shard, const table_catalog *catalog, size_t checked,
                                       const byte_sink *out);
/* MR_CORRUPT: not a slot snapshot, or of another format */
MR_MUST mr_status snapshot_file_check(const safetensors *list);
/* decodes to a snapshot. MR_CORRUPT; the error has the cause */
MR_MUST mr_status snapshot_file_decode(span file, buffer *out);
