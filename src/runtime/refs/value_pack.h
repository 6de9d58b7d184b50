/* value_pack.h — value pack: values of one call in one piece of memory, the arguments of a task or its results.
 *
 *   offset        value pack
 *   ------------  ------------------------------------------------------------------------------------------
 *   0             count u32, hidden u32: how many further entries there are behind those of the values (attachment.h)
 *   8 + 8 i       entry i: where u32 (an offset, a multiple of 8, plus the kind in its low bits), size u32
 *                 targets of the entries, each at a multiple of 8:
 *                   PLAIN   a value without buffers, `size` bytes (net/value.h)
 *                   PAYLOAD 32 bytes: payload offset u64, payload size u64, region offset u64, region size u64
 *                   STORED  `size` bytes that name an object of the machine's store (attachment.h)
 *                 payloads, each at a multiple of 8; regions, each at a multiple of 64
 *
 * Small values are plain and cost their own bytes and eight more. A value pack is sent inside a message if it is small
 * and as its body otherwise, and is used where it arrived: nothing is copied out of it.
 *
 * Its bytes may be in any memory (a span, opened by value_pack_open), or in a `value_pack`, reference-counted memory:
 * each object, view and task that uses it holds a reference. Not thread-safe: references are counted with the context's
 * lock held. */
#pragma once
#include "base/bytes.h"
#include "miniray/runtime.h"
#include "net/value.h"

enum {
    VALUE_PACK_VALUES_MAX = 1 << 20,
    VALUE_PACK_INLINE_MAX = 8 * 1024, /* larger packs are the body of a message, which is copied in and out at once */
    VALUE_PACK_EMPTY = 8,             /* size of a value pack without values */
    VALUE_PACK_SPARES_MAX = 8,
    VALUE_PACK_SPARE_BYTES = 256 * 1024, /* larger memory is not kept */
    VALUE_PACK_SCALAR_MAX = 32,          /* size of a value pack of one scalar */
    VALUE_PACK_OUT_OF_LINE = 16 * 1024,  /* tensors and bytes of this size or more are buffers */
    VALUE_PACK_OUT_OF_LINE_LEAST = 1024, /* the same, if a value would become too large otherwise */
    VALUE_PACK_PLAIN_MAX = 32 * 1024,    /* larger values are payloads */
};

/* ---- One value of a value pack. */

typedef enum value_pack_kind { VALUE_PACK_PLAIN, VALUE_PACK_PAYLOAD, VALUE_PACK_STORED } value_pack_kind;

typedef struct value_pack_entry { /* borrowed from the value pack */
    value_pack_kind kind;
    span bytes;  /* the value, the payload, or the name */
    span region; /* buffers of a payload */
} value_pack_entry;

/* Opens a value that is plain or a payload. As value_open. */
MR_MUST mr_status value_pack_entry_open(const value_pack_entry *entry, value_doc *doc, mr_value *root);

/* ---- Reading in place: bytes at a multiple of 8, and of 64 if a value is not plain. */

typedef struct value_pack_view {
    const uint8_t *bytes; /* borrowed */
    size_t size;
    uint32_t count, hidden;
    bool plain; /* all values are plain: alignment to 8 is enough for copies */
} value_pack_view;

MR_MUST mr_status value_pack_open(span bytes, value_pack_view *out); /* MR_CORRUPT */
/* Whether the bytes are a value pack of one plain value. The bytes after the value up to the next multiple of 8 are
 * zero in a pack of this process. */
bool value_pack_one_plain(span bytes, span *value);
/* The same for one value of one byte, such as nil: the shortest value pack but the empty one. *value is that byte. */
#define VALUE_PACK_BYTE_ENTRY (UINT64_C(16) | UINT64_C(1) << 32) /* where, with the kind PLAIN, and size */
static inline bool value_pack_one_byte(span bytes, uint64_t *value) {
    uint64_t words[3];
    if (bytes.size != sizeof words) return false;
    bytes_copy_words(words, bytes.data, sizeof words);
    *value = words[2];
    return words[0] == 1 && words[1] == VALUE_PACK_BYTE_ENTRY && words[2] <= UINT8_MAX;
}
value_pack_entry value_pack_view_entry(const value_pack_view *view, uint32_t index);

/* ---- Reference-counted memory. */

typedef struct value_pack { /* its bytes begin 64 bytes after its own address, which is a multiple of 64 */
    uint32_t refs;
    uint32_t count;
    size_t size;
    size_t room; /* allocated bytes, of which `size` are used */
    uint8_t *bytes;
    void *memory;                  /* allocated memory */
    uint32_t hidden;               /* entries behind the values */
    struct attachment *attachment; /* owned; attachment (attachment.h), NULL: none */
} value_pack;

/* Room for a received value pack; value_pack_check validates the bytes after they were copied, and opens them. */
MR_MUST mr_status value_pack_room(size_t size, value_pack **out);
MR_MUST mr_status value_pack_check(value_pack *pack, value_pack_view *view);

/* Spare memory of freed value packs, for the next ones: malloc returns large memory to the system at once, and new
 * memory costs a page fault for each page. */
typedef struct value_pack_spares {           /* zeroed: none */
    value_pack *kept[VALUE_PACK_SPARES_MAX]; /* owned */
    uint32_t count;
} value_pack_spares;

void value_pack_spares_fini(value_pack_spares *spares);
/* Takes over a pack without other references that is not too large. False: the pack stays the caller's. */
bool value_pack_spares_keep(value_pack_spares *spares, value_pack *pack);
/* as value_pack_room */
MR_MUST mr_status value_pack_spares_room(value_pack_spares *spares, size_t size, value_pack **out);

static inline value_pack *value_pack_ref(value_pack *pack) {
    pack->refs++;
    return pack;
}
void value_pack_unref(value_pack *pack); /* NULL is a no-op */

value_pack_entry value_pack_value(const value_pack *pack, uint32_t index); /* index >= count: a hidden entry */
void value_pack_hide(value_pack *pack, uint32_t hidden); /* hides the last entries of a new value pack */

/* ---- Packing. */

typedef struct value_pack_fill { /* function that fills tensors without data in place */
    mr_fill_fn *fn;
    void *user;
} value_pack_fill;

typedef struct value_pack_item { /* a value to pack: an argument, or one that is packed already (arg NULL) */
    const mr_arg *arg;
    const value_pack_fill *fill; /* for tensors without data in `arg`; borrowed, NULL: none */
    value_pack_entry entry;
    const struct value_pack *from; /* its pack, if its references are included (attachment.h) */
    uint32_t index;
} value_pack_item;

/* Packs the items. MR_INVALID, MR_TOO_LARGE, MR_NOMEM, or the status of the fill function. */
MR_MUST mr_status value_pack_create(const value_pack_item *items, size_t count, value_pack **out);

/* The same into memory that `room` returns, at a multiple of 64. `room` is called once, when the size is known. */
typedef mr_status value_pack_room_fn(void *context, size_t size, uint8_t **out);
MR_MUST mr_status value_pack_write(const value_pack_item *items, size_t count, value_pack_room_fn *room, void *context);

/* Packs values into `room` bytes at `out`, a multiple of 8. Returns the size; 0: the values are not small, do not fit,
 * have references inside, or are invalid: attachment_pack packs them, or reports the error. */
/* one value: nil, bool, int, float or short text */
size_t value_pack_pack_scalar(const mr_arg *arg, uint8_t out[VALUE_PACK_SCALAR_MAX]);
/* one value that value_pack_one_byte reads */
static inline size_t value_pack_pack_byte(const mr_arg *arg, uint8_t *out) {
    uint8_t byte;
    if (!value_write_byte(arg, &byte)) return 0;
    const uint64_t words[3] = {1, VALUE_PACK_BYTE_ENTRY, byte};
    bytes_copy_words(out, words, sizeof words);
    return sizeof words;
}
size_t value_pack_pack_small(const value_pack_item *items, size_t count, uint8_t *out, size_t room);
/* Size of the value pack of plain arguments, at most VALUE_PACK_INLINE_MAX; or more, at most VALUE_PACK_SPREAD_MAX, if
 * they can be spread (see below); 0: other arguments. */
size_t value_pack_small_size(const value_pack_item *items, size_t count);

/* ---- Spreading: a value pack of a few long pieces of data and little else is not packed, but gathered from the
 * arguments' memory. */

enum {
    VALUE_PACK_SPREAD_MAX = 64 * 1024,
    VALUE_PACK_SPREAD_REST = 1024, /* limit of the bytes besides long pieces */
    VALUE_PACK_SPREAD_LONG = 8,    /* limit of the number of long pieces */
};

typedef struct value_pack_spread { /* must not be moved; its bytes are the pieces, in order */
    size_t count;
    span pieces[2 * VALUE_PACK_SPREAD_LONG + 1]; /* borrowed from the arguments, or in `rest` */
    uint8_t rest[VALUE_PACK_SPREAD_REST];
} value_pack_spread;

/* Spreads arguments for which value_pack_small_size returned more than VALUE_PACK_INLINE_MAX. The bytes are those of
 * value_pack_create. */
void value_pack_spread_init(value_pack_spread *spread, const value_pack_item *items, size_t count);
