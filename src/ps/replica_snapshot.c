/* replica_snapshot.c — see replica.h: the state of a replica as bytes, for a joiner and for a checkpoint.
 *
 *   state    bytes  what
 *            8 8 …  version, checkpoint that was cut last, seqs by rank;
 *            n n    in BSP ranks that are frozen, that were counted before;
 *            4 …    the size of the values modulo 2^32; the values, up to the end: a slot may have any size
 *
 *   joiner   bytes  what
 *            4      number of seqs
 *            …      state
 *
 *   snapshot bytes  what
 *            4 4    number of seqs, bytes of the state before the values and their size
 *            …      state
 *
 * A snapshot may be read by a table of another number of ranks: new ranks begin at the step of the slowest rank that
 * has not left, as if they had ended all its steps; in BSP the round begins again, with the members that the cluster
 * map names. Pushes of removed ranks stay in the values: without rounds the seqs of those ranks are kept, and written
 * again, so that no push is applied twice if a later table has the ranks again. Ranks are numbered from 0: a table with
 * new ranks removes none. */
#include "base/alloc.h"
#include "base/mutation.h"
#include "ps/replica_internal.h"

/* Number of ranks in encoded rank sets: 0 for slots without rounds. */
static uint32_t rounds_of(const replica *replica, uint32_t ranks) {
    return replica->consistency.kind == CONSISTENCY_BSP ? ranks : 0;
}

static size_t head_size(const replica *replica) {
    return 16 + 8 * (size_t)replica->name_count + 2 * rank_set_size(rounds_of(replica, replica->rank_count));
}

static size_t state_size(const replica *replica) {
    return head_size(replica) + 4 + replica->ops->size(replica->values);
}

/* `kept`: the state of the version before, for a checkpoint: ranks and sets of the open round are not resumed. */
static void write_state(const replica *replica, bool names, bool kept, writer *writer) {
    MR_ASSERT(replica->values != NULL && replica->name_count >= replica->rank_count);
    uint32_t rounds = rounds_of(replica, replica->rank_count);
    writer_u64(writer, replica->version - kept);
    writer_u64(writer, replica->marked);
    for (uint32_t i = 0; i < replica->name_count; i++) writer_u64(writer, names ? replica->names[i] : 0);
    rank_set_write(&replica->frozen, rounds, writer);
    rank_set_write(&replica->past, rounds, writer);
    size_t size = replica->ops->size(replica->values);
    writer_u32(writer, (uint32_t)size);
    MR_ASSERT((size_t)(writer->end - writer->at) >= size);
    if (kept && !MUTATED("cut-ahead"))
        replica->ops->write_kept(replica->values, writer->at);
    else
        replica->ops->write(replica->values, writer->at);
    writer->at += size;
}

/* `shard`: a snapshot, which has the size of the bytes before the values (see above). */
static shared_bytes *write_bytes(const replica *replica, bool shard, bool names, bool kept) {
    size_t size = (shard ? 8 : 4) + state_size(replica);
    shared_bytes *bytes = shared_bytes_new(size);
    writer writer = writer_of(shared_bytes_room(bytes), size);
    writer_u32(&writer, replica->name_count);
    if (shard) writer_u32(&writer, (uint32_t)head_size(replica));
    write_state(replica, names, kept, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == size);
    return bytes;
}

shared_bytes *replica_write_state(const replica *replica) {
    return write_bytes(replica, false, !MUTATED("state-no-names"), false);
}
shared_bytes *replica_write_shard(const replica *replica, bool kept) {
    return write_bytes(replica, true, !MUTATED("shard-no-names"), kept);
}

/* ---- Reading. */

/* Makes room for the seqs of all present and former ranks of the table. */
static void count_names(replica *replica, uint32_t ranks) {
    bool keeps = replica->round_state == NO_ROUND_STATE && !MUTATED("forgets-away");
    replica->name_count = keeps && ranks > replica->rank_count ? ranks : replica->rank_count;
    replica->names = xrealloc(replica->names, replica->name_count * sizeof *replica->names);
}

/* The seqs at the round state are order numbers, which begin with the term (rank.h). Another generation begins them
 * anew: no earlier order is repeated, and terms of a metadata store that lost its disk may be lower. */
static void read_names(replica *replica, reader *reader, uint32_t ranks, bool resumes) {
    uint64_t least = UINT64_MAX, left = UINT64_MAX;
    bool forgets = resumes && replica_is_round_state(replica) && !MUTATED("keeps-orders");
    count_names(replica, ranks);
    for (uint32_t i = 0; i < ranks; i++) {
        uint64_t name = reader_u64(reader);
        uint64_t *lowest = seq_is_left(name) ? &left : &least;
        if (seq_ended(name) < *lowest) *lowest = seq_ended(name);
        if (i < replica->name_count) replica->names[i] = forgets ? 0 : name;
    }
    if (least == UINT64_MAX) least = left;
    bool begins = replica->consistency.kind != CONSISTENCY_BSP && ranks != 0 && least != 0;
    for (uint32_t i = ranks; i < replica->rank_count; i++) replica->names[i] = begins ? seq_tick(least) : 0;
}

static bool read_values(replica *replica, span values, uint32_t ranks, bool resumes) {
    if (replica_is_round_state(replica) && resumes) return round_state_resume(replica->values, values, ranks);
    return replica->ops->read(replica->values, values);
}

static bool read_state(replica *replica, reader *reader, uint32_t ranks, bool resumes) {
    if (ranks > CLUSTER_MAP_RANKS_MAX || (rounds_of(replica, ranks) > RANK_SET_MAX)) return false;
    replica->version = reader_u64(reader);
    replica->marked = reader_u64(reader);
    read_names(replica, reader, ranks, resumes);
    bool sets = rank_set_read(reader, rounds_of(replica, ranks), &replica->frozen) &&
                rank_set_read(reader, rounds_of(replica, ranks), &replica->past);
    if (resumes) replica->frozen = replica->past = (rank_set){0}; /* no rank repeats an earlier round */
    uint32_t size = reader_u32(reader);
    span values = span_of(reader->at, reader_left(reader));
    return sets && !reader->failed && size == (uint32_t)values.size && read_values(replica, values, ranks, resumes);
}

bool replica_read_state(replica *replica, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint32_t ranks = reader_u32(&reader);
    return ranks >= replica->rank_count && read_state(replica, &reader, ranks, false);
}

bool replica_read_shard(replica *replica, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint32_t ranks = reader_u32(&reader);
    (void)reader_u32(&reader); /* a field for programs that inspect the file */
    return read_state(replica, &reader, ranks, true);
}
