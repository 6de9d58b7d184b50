/* sparse_table_test.c — rows by key: making, reading, ages, erasing, copying in pieces, and memory use. */
#include "kv/table/sparse_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/rng.h"
#include "kv/table/sparse_internal.h"

static sparse *make(sparse_table_options options) {
    sparse *table;
    assert_int_equal(sparse_table_create(&options, &table), MR_OK);
    return table;
}

static sparse_table_options embedding(uint32_t dim, uint32_t state) {
    return (sparse_table_options){
        .dtype = MR_F32, .dim = dim, .state = state, .init = {INITIALIZER_UNIFORM, -1, 1, 3, 4}};
}

static void touch_one(sparse *table, uint64_t key, uint32_t now, void **row) {
    assert_int_equal(sparse_table_touch(table, &key, 1, now, row, NULL), MR_OK);
}

static void rows_begin_as_they_read_before(void **state) {
    enum { COUNT = 3000, DIM = 70 };
    sparse *table = make(embedding(DIM, 8));
    uint64_t keys[COUNT];
    void *rows[COUNT];
    float *before = calloc(COUNT, DIM * sizeof *before), *after = calloc(COUNT, DIM * sizeof *after);
    for (uint64_t i = 0; i < COUNT; i++) keys[i] = i * i * 977;
    sparse_table_read(table, keys, COUNT, MR_F32, before);
    assert_int_equal(sparse_table_look_at(table).rows, 0);
    assert_int_equal(sparse_table_touch(table, keys, COUNT, 0, rows, NULL), MR_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_memory_equal(rows[i], before + i * DIM, DIM * sizeof *before);
        assert_memory_equal((float *)rows[i] + DIM, "\0\0\0\0\0\0\0", 8);
        assert_ptr_equal(sparse_table_find(table, keys[i]), rows[i]);
        ((float *)rows[i])[0] = (float)i;
        before[i * DIM] = (float)i;
    }
    sparse_table_read(table, keys, COUNT, MR_F32, after);
    assert_memory_equal(before, after, COUNT * DIM * sizeof *before);
    for (size_t i = 0; i < COUNT; i++) sparse_table_read(table, &keys[i], 1, MR_F32, after + i * DIM);
    assert_memory_equal(before, after, COUNT * DIM * sizeof *before);
    assert_int_equal(sparse_table_look_at(table).rows, COUNT);
    free(before);
    free(after);
    sparse_table_destroy(table);
}

static void one_alone_is_touched_as_many_are(void **state) {
    enum { DIM = 3 };
    sparse *table = make(embedding(DIM, 4));
    const uint64_t keys[] = {5, 6};
    void *one, *both[2];
    bool absent[2] = {false, false};
    float shown[2][DIM];
    sparse_table_read(table, &keys[0], 1, MR_F32, shown[0]);
    assert_int_equal(sparse_table_touch(table, &keys[0], 1, 0, &one, absent), MR_OK);
    assert_true(absent[0]);
    assert_memory_equal(one, shown[0], sizeof shown[0]);
    assert_int_equal(sparse_table_touch(table, &keys[0], 1, 0, &one, absent), MR_OK);
    assert_false(absent[0]);
    assert_ptr_equal(one, sparse_table_find(table, 5));
    assert_int_equal(sparse_table_touch(table, keys, 2, 0, both, absent), MR_OK);
    assert_true(!absent[0] && absent[1]);
    assert_ptr_equal(both[0], sparse_table_find(table, 5));
    sparse_table_destroy(table);
}

/* Row numbers are valid until a key gets or loses a row, even if the rows move. */
static void rows_are_read_by_their_numbers(void **state) {
    enum { COUNT = 300, DIM = 5 };
    sparse *table = make(embedding(DIM, 4));
    uint64_t keys[COUNT], made[COUNT];
    uint32_t numbers[COUNT];
    void *rows[COUNT];
    float found[COUNT][DIM], noted[COUNT][DIM];
    for (uint64_t i = 0; i < COUNT; i++) keys[i] = i * 31;
    for (uint64_t i = 0; i < COUNT / 2; i++) made[i] = keys[2 * i];
    assert_int_equal(sparse_table_changes(table), 0);
    assert_int_equal(sparse_table_touch(table, made, COUNT / 2, 0, rows, NULL), MR_OK);
    uint64_t changes = sparse_table_changes(table);
    assert_true(changes != 0);
    sparse_table_read_noting(table, keys, COUNT, numbers, MR_F32, found);
    for (size_t i = 0; i < COUNT; i++) assert_true((numbers[i] != 0) == (i % 2 == 0));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(sparse_table_touch(table, made, COUNT / 2, 0, rows, NULL), MR_OK); /* all rows exist already */
        for (size_t i = 0; i < COUNT / 2; i++) ((float *)rows[i])[1] += 1;
        assert_int_equal(sparse_table_changes(table), changes);
        sparse_table_read(table, keys, COUNT, MR_F32, found);
        for (size_t count = 0; count <= COUNT; count += 50) { /* as many keys as are prefetched, fewer, and more */
            memset(noted, 0, sizeof noted);
            sparse_table_read_noted(table, keys, count, numbers, MR_F32, noted);
            assert_memory_equal(noted, found, count * sizeof *noted);
        }
    }
    assert_int_equal(sparse_table_touch(table, keys, 2, 0, rows, NULL), MR_OK); /* one row is new */
    assert_true(sparse_table_changes(table) > changes);
    changes = sparse_table_changes(table);
    assert_int_equal(sparse_table_erase(table, keys, 1), 1);
    assert_true(sparse_table_changes(table) > changes);
    sparse_table_destroy(table);
}

/* A batch of any size finds each key as a single lookup does; some are absent, some are repeated. */
/* Keys in moved and unmoved buckets, keys in the overflow index, and candidates; in batches. */
static void keys_are_found_while_it_grows(void **state) {
    enum { MOST = 6000, BATCH = 100 };
    static uint64_t keys[MOST];
    static const void *found[MOST];
    sparse_table_options options = embedding(1, 0);
    options.admit = 2;
    sparse *table = make(options);
    void *rows[BATCH];
    size_t growing = 0, settled = 0, overflow = 0;
    for (uint64_t i = 0; i < MOST; i++) keys[i] = i * 77;
    for (size_t count = BATCH; count <= MOST; count += BATCH) {
        const uint64_t *last = keys + count - BATCH;
        assert_int_equal(sparse_table_touch(table, last, BATCH, 0, rows, NULL), MR_OK);
        assert_int_equal(sparse_table_touch(table, last, BATCH / 2, 0, rows, NULL), MR_OK);
        (table->index.old.buckets != NULL ? &growing : &settled)[0]++;
        if (table->index.index.count > overflow) overflow = table->index.index.count;
        sparse_table_rows_of(table, keys, MOST, found);
        for (size_t i = 0; i < MOST; i++) {
            assert_ptr_equal(found[i], sparse_table_find(table, keys[i]));
            assert_int_equal(found[i] != NULL, i < count && i % BATCH < BATCH / 2);
        }
    }
    assert_true(growing > 5 && settled > 5 && overflow > 10);
    sparse_table_destroy(table);
}

static void many_keys_are_found_as_one_is(void **state) {
    enum { MOST = 200, DIM = 4 };
    sparse *table = make(embedding(DIM, 0));
    uint64_t keys[MOST];
    uint32_t numbers[MOST];
    const void *found[MOST];
    void *rows[MOST];
    float values[MOST][DIM], one[DIM];
    for (uint64_t i = 0; i < MOST; i += 2) touch_one(table, i * 77, 0, rows);
    for (uint64_t i = 0; i < MOST; i++) keys[i] = (i % 10 == 9 ? i - 1 : i) * 77;
    for (size_t count = 0; count <= MOST; count++) {
        memset(values, 0, sizeof values);
        sparse_table_rows_of(table, keys, count, found);
        sparse_table_read_noting(table, keys, count, numbers, MR_F32, values);
        for (size_t i = 0; i < count; i++) {
            const void *row = sparse_table_find(table, keys[i]);
            sparse_table_read(table, &keys[i], 1, MR_F32, one);
            assert_ptr_equal(found[i], row);
            assert_int_equal(numbers[i] != 0, row != NULL);
            assert_memory_equal(values[i], one, sizeof one);
        }
    }
    for (size_t count = 0; count <= MOST; count++) { /* the last key is new, unless it is even or repeated */
        bool absent[MOST];
        uint64_t last = count == 0 ? 0 : keys[count - 1];
        bool is_new = count != 0 && sparse_table_find(table, last) == NULL;
        assert_int_equal(sparse_table_touch(table, keys, count, 0, rows, absent), MR_OK);
        for (size_t i = 0; i < count; i++) {
            assert_ptr_equal(rows[i], sparse_table_find(table, keys[i]));
            assert_int_equal(absent[i], is_new && i + 1 == count);
        }
    }
    sparse_table_destroy(table);
}

static void halves_are_read_from_a_whole_master(void **state) {
    const mr_dtype dtypes[] = {MR_F16, MR_BF16};
    for (size_t k = 0; k < 2; k++) {
        sparse_table_options options = embedding(3, 0);
        if (k == 1) options.dtype = MR_BF16; /* the dtype of a read need not be the table's */
        sparse *table = make(options);
        uint64_t keys[2] = {5, 6};
        uint16_t out[6];
        void *row;
        touch_one(table, 5, 0, &row);
        ((float *)row)[1] = 1 + 0x1p-20f; /* exact in fp32, but in neither half precision type */
        sparse_table_read(table, keys, 2, dtypes[k], out);
        for (size_t i = 0; i < 3; i++) {
            float value = ((float *)row)[i];
            assert_int_equal(out[i], k == 0 ? half_to_fp16(value) : half_to_bf16(value));
        }
        uint16_t alone[3];
        for (size_t i = 0; i < 2; i++) {
            sparse_table_read(table, &keys[i], 1, dtypes[k], alone);
            assert_memory_equal(alone, out + 3 * i, sizeof alone);
        }
        float absent[3];
        initializer_fill(&options.init, MR_F32, 6, 0, 3, absent);
        assert_int_equal(out[4], k == 0 ? half_to_fp16(absent[1]) : half_to_bf16(absent[1]));
        assert_true(((const float *)sparse_table_find(table, 5))[1] == 1 + 0x1p-20f);
        assert_int_equal(sparse_table_value_bytes(table, dtypes[k]), 6);
        sparse_table_destroy(table);
    }
}

static void counters_count(void **state) {
    sparse *table = make((sparse_table_options){.dtype = MR_I64, .dim = 2, .init = {INITIALIZER_CONSTANT, 5}});
    uint64_t keys[3] = {1, 2, 1};
    void *rows[3];
    assert_int_equal(sparse_table_touch(table, keys, 3, 0, rows, NULL), MR_OK);
    for (size_t i = 0; i < 3; i++) ((int64_t *)rows[i])[1] += INT64_C(1) << 40;
    assert_ptr_equal(rows[0], rows[2]);
    int64_t out[4];
    keys[1] = 9;
    sparse_table_read(table, keys, 2, MR_I64, out);
    assert_true(out[0] == 5 && out[1] == 5 + (INT64_C(2) << 40) && out[2] == 5 && out[3] == 5);
    sparse_table_destroy(table);
}

static void wrong_options_are_refused(void **state) {
    sparse_table_options good = embedding(4, 8), wrong[7];
    for (size_t i = 0; i < 7; i++) wrong[i] = good;
    wrong[0].dtype = MR_F64;
    wrong[1].dim = 0;
    wrong[2].dim = SPARSE_TABLE_DIM_MAX + 1;
    wrong[3].state = 6;
    wrong[4].admit = SPARSE_TABLE_ADMIT_MAX + 1;
    wrong[5].init.kind = (initializer_kind)7;
    wrong[6].dtype = MR_I64; /* counters have no random initial values */
    for (size_t i = 0; i < 7; i++) {
        sparse *table = NULL;
        assert_int_equal(sparse_table_create(&wrong[i], &table), MR_INVALID);
        assert_true(table == NULL && mr_last_error()[0] != 0);
    }
    assert_int_equal(sparse_table_check(&good), MR_OK);
}

static void a_key_is_admitted_when_it_came_often_enough(void **state) {
    sparse_table_options options = embedding(2, 0);
    options.admit = 3;
    sparse *table = make(options);
    void *row;
    touch_one(table, 7, 0, &row);
    assert_null(row);
    touch_one(table, 7, 0, &row);
    assert_null(row);
    assert_true(sparse_table_look_at(table).rows == 0 && sparse_table_look_at(table).candidates == 1);
    touch_one(table, 7, 0, &row);
    assert_non_null(row);
    uint64_t keys[4] = {8, 8, 8, 8}; /* all in one push */
    void *rows[4];
    assert_int_equal(sparse_table_touch(table, keys, 4, 0, rows, NULL), MR_OK);
    assert_true(rows[0] == NULL && rows[1] == NULL && rows[2] != NULL && rows[3] == rows[2]);
    assert_true(sparse_table_look_at(table).rows == 2 && sparse_table_look_at(table).candidates == 0);
    sparse_table_destroy(table);
}

static void a_table_has_no_more_rows_than_it_may(void **state) {
    sparse_table_options options = embedding(2, 0);
    options.rows_max = 3;
    sparse *table = make(options);
    uint64_t keys[4] = {1, 2, 3, 4};
    void *rows[4];
    assert_int_equal(sparse_table_touch(table, keys, 2, 0, rows, NULL), MR_OK);
    assert_int_equal(sparse_table_touch(table, keys, 4, 0, rows, NULL), MR_NOMEM);
    assert_true(sparse_table_look_at(table).rows == 2 && sparse_table_find(table, 3) == NULL);
    assert_int_equal(sparse_table_touch(table, keys, 3, 0, rows, NULL), MR_OK);
    sparse_table_destroy(table);
}

/* ---- Ages. */

static void the_aged_and_the_oldest_are_named(void **state) {
    enum { COUNT = 1000 };
    sparse_table_options options = embedding(1, 0);
    options.ages = true;
    sparse *table = make(options);
    void *row;
    for (uint64_t key = 0; key < COUNT; key++) touch_one(table, key, UINT32_MAX - 499 + (uint32_t)key, &row);
    uint64_t keys[COUNT], again[COUNT];
    uint32_t now = 500; /* the clock has wrapped around; key k was touched 999 − k ago */
    sparse_table_cursor cursor = {0};
    size_t count = 0;
    while (!cursor.done) count += sparse_table_aged(table, now - 1, 899, UINT64_MAX, &cursor, keys + count, 7);
    assert_int_equal(count, 100);
    for (size_t i = 0; i < count; i++) assert_true(keys[i] < 100);
    size_t oldest;
    assert_int_equal(sparse_table_oldest(table, now, 100, again, &oldest), MR_OK);
    assert_int_equal(oldest, 100);
    assert_memory_equal(keys, again, 100 * sizeof *keys);
    assert_int_equal(sparse_table_erase(table, keys, count), 100);
    assert_int_equal(sparse_table_erase(table, keys, count), 0);
    assert_true(sparse_table_look_at(table).rows == 900 && sparse_table_find(table, 99) == NULL &&
                sparse_table_find(table, 100) != NULL);
    assert_int_equal(sparse_table_oldest(table, now, COUNT, again, &oldest), MR_OK);
    assert_int_equal(oldest, 900);
    assert_int_equal(sparse_table_oldest(table, now, 0, again, &oldest), MR_OK);
    assert_int_equal(oldest, 0);
    sparse_table_destroy(table);
}

static void equal_ages_are_told_apart_by_their_hashes(void **state) {
    sparse_table_options options = embedding(1, 0);
    sparse *table = make(options); /* without ages all keys are equally old */
    void *row;
    for (uint64_t key = 0; key < 100; key++) touch_one(table, key, (uint32_t)key, &row);
    uint64_t ten[10], all[100];
    size_t count;
    assert_int_equal(sparse_table_oldest(table, 500, 10, ten, &count), MR_OK);
    assert_int_equal(count, 10);
    assert_int_equal(sparse_table_oldest(table, 500, 100, all, &count), MR_OK);
    assert_int_equal(count, 100);
    assert_memory_equal(ten, all, sizeof ten);
    sparse_table_destroy(table);

    options.ages = true;
    table = make(options);
    for (uint64_t key = 0; key < 100; key++) touch_one(table, key, key % 10 == 0 ? 1 : 5, &row);
    assert_int_equal(sparse_table_oldest(table, 9, 15, all, &count), MR_OK);
    size_t older = 0;
    for (size_t i = 0; i < count; i++) older += all[i] % 10 == 0;
    assert_true(count == 15 && older == 10);
    sparse_table_destroy(table);
}

/* ---- Pieces. */

typedef struct image {
    uint8_t *bytes;
    size_t size, piece_count;
} image;

static image pack_all(const sparse *table, size_t room) {
    image image = {calloc(1, 1 << 20), 0, 0};
    sparse_table_cursor cursor = {0};
    while (!cursor.done) {
        assert_true(image.size + room + 8 <= 1 << 20);
        size_t size = sparse_table_pack(table, &cursor, image.bytes + image.size + 8, room);
        assert_true(size <= room);
        memcpy(image.bytes + image.size, &size, sizeof size);
        image.size += 8 + size;
        image.piece_count++;
    }
    return image;
}

static mr_status unpack_all(sparse *table, const image *image) {
    for (size_t at = 0; at < image->size;) {
        size_t size;
        memcpy(&size, image->bytes + at, sizeof size);
        MR_TRY(sparse_table_unpack(table, span_of(image->bytes + at + 8, size)));
        at += 8 + size;
    }
    return MR_OK;
}

/* A table with rows, candidates and ages, made in an order derived from the seed. */
static sparse *grown(uint64_t seed) {
    sparse_table_options options = embedding(5, 12);
    options.admit = 2;
    options.ages = true;
    sparse *table = make(options);
    uint64_t keys[2000];
    void *row;
    rng rng;
    rng_init(&rng, seed);
    for (uint64_t i = 0; i < 2000; i++) keys[i] = i;
    rng_shuffle(&rng, keys, 2000, sizeof *keys);
    for (size_t i = 0; i < 2000; i++) touch_one(table, keys[i], (uint32_t)keys[i], &row);
    for (size_t i = 0; i < 2000; i++) {
        if (keys[i] % 3 == 0) continue;
        touch_one(table, keys[i], (uint32_t)keys[i] + 1, &row);
        ((float *)row)[1] += (float)keys[i];
    }
    for (uint64_t key = 0; key < 2000; key += 5) (void)sparse_table_erase(table, &key, 1);
    return table;
}

static void copies_have_the_same_bytes_however_they_were_made(void **state) {
    sparse *one = grown(1), *two = grown(2), *copy = grown(3);
    image a = pack_all(one, 500), b = pack_all(two, 500);
    assert_true(a.piece_count > 10 && a.size == b.size);
    assert_memory_equal(a.bytes, b.bytes, a.size);
    sparse_table_destroy(copy);
    sparse_table_options options = embedding(5, 12);
    options.admit = 2;
    options.ages = true;
    copy = make(options);
    assert_int_equal(unpack_all(copy, &a), MR_OK);
    image c = pack_all(copy, 500);
    assert_true(c.size == a.size);
    assert_memory_equal(a.bytes, c.bytes, a.size);
    assert_int_equal(unpack_all(copy, &a), MR_EXISTS);
    assert_true(sparse_table_look_at(copy).rows == sparse_table_look_at(one).rows &&
                sparse_table_look_at(copy).candidates > 0);
    void *row;
    touch_one(one, 1, 9, &row); /* both continue in the same way */
    touch_one(copy, 1, 9, &row);
    image d = pack_all(one, 5000), e = pack_all(copy, 5000);
    assert_true(d.size == e.size && d.piece_count < a.piece_count);
    assert_memory_equal(d.bytes, e.bytes, d.size);
    image *all[] = {&a, &b, &c, &d, &e};
    for (size_t i = 0; i < 5; i++) free(all[i]->bytes);
    sparse_table_destroy(one);
    sparse_table_destroy(two);
    sparse_table_destroy(copy);
}

/* The table changes between pieces; the copy applies changes made after a key's piece. */
static void a_table_may_change_between_pieces(void **state) {
    sparse *table = make(embedding(1, 0)), *copy = make(embedding(1, 0));
    uint8_t piece[400];
    rng rng;
    rng_init(&rng, 4);
    sparse_table_cursor cursor = {0};
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t key = rng_below(&rng, 700);
        void *row, *copied;
        if (i % 20 == 19 && i > 1000 && !cursor.done) {
            size_t size = sparse_table_pack(table, &cursor, piece, sizeof piece);
            assert_int_equal(sparse_table_unpack(copy, span_of(piece, size)), MR_OK);
        }
        touch_one(table, key, 0, &row);
        ((float *)row)[0] = ((float *)row)[0] * 0.5f + (float)i;
        if (!cursor.done && sparse_hash(key) >= cursor.from) continue; /* not in a packed piece yet */
        touch_one(copy, key, 0, &copied);
        ((float *)copied)[0] = ((float *)copied)[0] * 0.5f + (float)i;
    }
    assert_true(cursor.done);
    image a = pack_all(table, 1000), b = pack_all(copy, 1000);
    assert_true(a.size == b.size);
    assert_memory_equal(a.bytes, b.bytes, a.size);
    free(a.bytes);
    free(b.bytes);
    sparse_table_destroy(table);
    sparse_table_destroy(copy);
}

static void damaged_pieces_are_refused(void **state) {
    sparse *table = grown(1);
    image whole = pack_all(table, 100000);
    uint8_t *piece = whole.bytes + 8;
    size_t size = whole.size - 8;
    sparse_table_options options = embedding(5, 12);
    options.admit = 2;
    sparse *copy = make(options);
    assert_int_equal(whole.piece_count, 1);
    for (size_t cut = 0; cut < size; cut += 37)
        assert_int_equal(sparse_table_unpack(copy, span_of(piece, cut)), MR_CORRUPT);
    for (size_t at = 0; at < 48; at++) {   /* the head and the first key: hash, seen, count */
        if (at >= 40 && at < 44) continue; /* any age is valid */
        piece[at] ^= 0x81;
        mr_status status = sparse_table_unpack(copy, span_of(piece, size));
        if (at >= 16 && at < 32) /* a wider interval is valid, too */
            assert_true(status == MR_CORRUPT || sparse_table_look_at(copy).rows > 0);
        else if (at < 32 || at >= 44)
            assert_true(status == MR_CORRUPT || status == MR_INVALID);
        piece[at] ^= 0x81;
        if (status != MR_OK) {
            assert_int_equal(sparse_table_look_at(copy).rows, 0);
            continue;
        }
        sparse_table_destroy(copy);
        copy = make(options);
    }
    options.dim = 6;
    sparse *other = make(options);
    assert_int_equal(sparse_table_unpack(other, span_of(piece, size)), MR_INVALID);
    assert_int_equal(sparse_table_unpack(copy, span_of(piece, size)), MR_OK);
    free(whole.bytes);
    sparse_table_destroy(table);
    sparse_table_destroy(copy);
    sparse_table_destroy(other);
}

/* ---- Memory. */

/* Every allocation of a touch and of an unpack fails in turn; a failed call changes nothing. */
static void without_memory_nothing_is_half_done(void **state) {
    enum { COUNT = 40 };
    for (uint32_t admit = 1; admit <= 2; admit++) {
        sparse_table_options options = embedding(3, 4);
        options.admit = admit;
        sparse *table = make(options), *copy = make(options);
        uint64_t keys[COUNT];
        void *rows[COUNT];
        for (uint64_t round = 0; round < 60; round++) {
            for (uint64_t i = 0; i < COUNT; i++) keys[i] = round * 25 + i; /* some exist, some do not */
            keys[3] = keys[30];
            image before = pack_all(table, 100000);
            size_t nth = 0;
            mr_status status;
            do {
                alloc_fail_at(++nth);
                status = sparse_table_touch(table, keys, COUNT, (uint32_t)round, rows, NULL);
                alloc_fail_at(0);
                if (status == MR_OK) break;
                assert_int_equal(status, MR_NOMEM);
                image after = pack_all(table, 100000);
                assert_true(after.size == before.size);
                assert_memory_equal(after.bytes, before.bytes, before.size);
                free(after.bytes);
            } while (true);
            free(before.bytes);
        }
        image whole = pack_all(table, 100000);
        for (size_t nth = 1; alloc_fail_at(nth), unpack_all(copy, &whole) != MR_OK; nth++)
            assert_true(sparse_table_look_at(copy).rows == 0 && sparse_table_look_at(copy).candidates == 0);
        alloc_fail_at(0);
        assert_int_equal(sparse_table_look_at(copy).rows, sparse_table_look_at(table).rows);
        free(whole.bytes);
        sparse_table_destroy(table);
        sparse_table_destroy(copy);
    }
}

/* Payload and less than 10 bytes, at a load of at least 0.45; during growth also the places that are being moved. */
static void a_row_costs_what_it_should(void **state) {
    enum { DIM = 16, BATCH = 1000, LAST = 300 };
    sparse *table = make(embedding(DIM, 0));
    uint64_t keys[BATCH];
    void *rows[BATCH];
    double worst = 0, best = 1000;
    for (uint64_t batch = 0; batch < LAST; batch++) {
        for (uint64_t i = 0; i < BATCH; i++) keys[i] = batch * BATCH + i;
        assert_int_equal(sparse_table_touch(table, keys, BATCH, 0, rows, NULL), MR_OK);
        sparse_table_look look = sparse_table_look_at(table);
        double over = ((double)look.bytes - (4 << 20)) / (double)look.rows - DIM * sizeof(float);
        if (batch > 100 && over > worst) worst = over;
        if (batch > 100 && over < best) best = over;
    }
    assert_true(worst < 10 / 0.45 + 10 / 0.59); /* both arrays during growth */
    assert_true(best < 10 / 0.58);
    sparse_table_look look = sparse_table_look_at(table);
    assert_int_equal(look.rows, BATCH * LAST);
    sparse_table_destroy(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_begin_as_they_read_before),
        cmocka_unit_test(one_alone_is_touched_as_many_are),
        cmocka_unit_test(rows_are_read_by_their_numbers),
        cmocka_unit_test(many_keys_are_found_as_one_is),
        cmocka_unit_test(keys_are_found_while_it_grows),
        cmocka_unit_test(halves_are_read_from_a_whole_master),
        cmocka_unit_test(counters_count),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(a_key_is_admitted_when_it_came_often_enough),
        cmocka_unit_test(a_table_has_no_more_rows_than_it_may),
        cmocka_unit_test(the_aged_and_the_oldest_are_named),
        cmocka_unit_test(equal_ages_are_told_apart_by_their_hashes),
        cmocka_unit_test(copies_have_the_same_bytes_however_they_were_made),
        cmocka_unit_test(a_table_may_change_between_pieces),
        cmocka_unit_test(damaged_pieces_are_refused),
        cmocka_unit_test(without_memory_nothing_is_half_done),
        cmocka_unit_test(a_row_costs_what_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
