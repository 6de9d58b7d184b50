/* bundle.h — the values of one call, packed into one piece of memory: the arguments of a task, or what it returns.
 *
 *   offset        bundle
 *   ------------  ------------------------------------------------------------------------------------------
 *   0             count u32, hidden u32: how many further entries there are behind those of the values (cargo.h)
 *   8 + 8 i       entry i: where u32 (an offset, a multiple of 8, plus the kind in its low bits), size u32
 *                 what the entries point to, each at a multiple of 8:
 *                   PLAIN   a value without buffers, `size` bytes (net/value.h)
 *                   PARCEL  32 bytes: parcel offset u64, parcel size u64, region offset u64, region size u64
 *                   STORED  `size` bytes that name an object of the machine's store (cargo.h)
 *                 parcels, each at a multiple of 8; regions, each at a multiple of 64
 *
 * Small values are plain and cost their own bytes and eight more. A bundle travels inside a message if it is small and
 * as its body otherwise, and is used where it arrived: nothing is copied out of it.
 *
 * Its bytes may lie anywhere (a span, opened by bundle_open), or in a `bundle`, memory that is shared: each object,
 * view and task that uses it holds a reference. Not thread-safe: references are counted with the context's lock held.
 */
#pragma once
#include "base/bytes.h"
#include "miniray/runtime.h"
#include "net/value.h"

enum {
    BUNDLE_VALUES_MAX = 1 << 20,
    BUNDLE_INLINE_MAX = 8 * 1024, /* of a message; what is longer is its body, which is copied in and out at once */
    BUNDLE_EMPTY = 8,             /* bytes of one without values */
    BUNDLE_SPARES_MAX = 8,
    BUNDLE_SPARE_BYTES = 256 * 1024, /* larger memory is not kept */
    BUNDLE_SCALAR_MAX = 32,          /* of one with one scalar */
    BUNDLE_OUT_OF_LINE = 16 * 1024,  /* tensors and bytes from here on are buffers, */
    BUNDLE_OUT_OF_LINE_LEAST = 1024, /* or from here on, where a value would become too large */
    BUNDLE_PLAIN_MAX = 32 * 1024,    /* larger values are parcels */
};

/* ---- One value of a bundle. */

typedef enum bundle_kind { BUNDLE_PLAIN, BUNDLE_PARCEL, BUNDLE_STORED } bundle_kind;

typedef struct bundle_entry { /* borrowed from the bundle */
    bundle_kind kind;
    span bytes;  /* the value, the parcel, or the name */
    span region; /* of a parcel */
} bundle_entry;

/* Opens a value that is plain or a parcel. As value_open. */
MR_MUST mr_status bundle_entry_open(const bundle_entry *entry, value_doc *doc, mr_value *root);

/* ---- Reading, where the bytes lie: at a multiple of 8, and of 64 if not all are plain. */

typedef struct bundle_view {
    const uint8_t *bytes; /* borrowed */
    size_t size;
    uint32_t count, hidden;
    bool plain; /* all its values are: a multiple of 8 is enough, wherever the bytes are copied to */
} bundle_view;

MR_MUST mr_status bundle_open(span bytes, bundle_view *out); /* MR_CORRUPT */
/* Whether the bytes are a bundle of one plain value. What follows it to the next multiple of 8 is zero in one that was
 * packed here. */
bool bundle_one_plain(span bytes, span *value);
/* The same for one value of one byte, such as nil: the shortest bundle but the empty one, read as it was written. */
#define BUNDLE_BYTE_ENTRY (UINT64_C(16) | UINT64_C(1) << 32) /* where, with the kind PLAIN, and size */
static inline bool bundle_one_byte(span bytes, uint64_t *value) {
    uint64_t words[3];
    if (bytes.size != sizeof words) return false;
    bytes_copy_words(words, bytes.data, sizeof words);
    *value = words[2];
    return words[0] == 1 && words[1] == BUNDLE_BYTE_ENTRY && words[2] <= UINT8_MAX;
}
bundle_entry bundle_view_entry(const bundle_view *view, uint32_t index);

/* ---- Memory that is shared. */

typedef struct bundle { /* its bytes follow, 64 behind its own address, which is a multiple of 64 */
    uint32_t refs;
    uint32_t count;
    size_t size;
    size_t room; /* of which `size` bytes are used */
    uint8_t *bytes;
    void *memory;        /* what was allocated */
    uint32_t hidden;     /* entries behind the values */
    struct cargo *cargo; /* owned; what it holds in the store (cargo.h), NULL: nothing */
} bundle;

/* Room for a bundle that arrives; after its bytes are there, bundle_check says whether they are one. */
MR_MUST mr_status bundle_room(size_t size, bundle **out);
MR_MUST mr_status bundle_check(bundle *bundle);

/* The memory of some that are not needed any more, for the next ones: what malloc gets back it gives back to the system
 * at once where it is much, and every page of it would be a fresh one each time. */
typedef struct bundle_spares {       /* zeroed: none */
    bundle *kept[BUNDLE_SPARES_MAX]; /* owned */
    uint32_t count;
} bundle_spares;

void bundle_spares_fini(bundle_spares *spares);
/* Takes it over if it is fit for that: nobody else has it, and it is not too large. False: it stays the caller's. */
bool bundle_spares_keep(bundle_spares *spares, bundle *bundle);
MR_MUST mr_status bundle_spares_room(bundle_spares *spares, size_t size, bundle **out); /* as bundle_room */

bundle *bundle_ref(bundle *bundle);
void bundle_unref(bundle *bundle); /* NULL is a no-op */

bundle_entry bundle_value(const bundle *bundle, uint32_t index); /* from count on: hidden ones */
void bundle_hide(bundle *bundle, uint32_t hidden);               /* the last so many of a new one are hidden */

/* ---- Packing. */

typedef struct bundle_fill { /* writes the tensors that have no data yet, when it is known where they lie */
    mr_fill_fn *fn;
    void *user;
} bundle_fill;

typedef struct bundle_item { /* a value to pack: an argument, or one that is packed already (arg NULL) */
    const mr_arg *arg;
    const bundle_fill *fill; /* of an argument; borrowed, NULL: it is whole */
    bundle_entry entry;
    const struct bundle *from; /* where it is packed, if what it refers to comes along (cargo.h) */
    uint32_t index;
} bundle_item;

/* MR_INVALID, MR_NOMEM, or what filling it says. */
MR_MUST mr_status bundle_create(const bundle_item *items, size_t count, bundle **out);

/* The same into memory that `room` gives, which is asked for once, when the size is known: a multiple of 64. */
typedef mr_status bundle_room_fn(void *context, size_t size, uint8_t **out);
MR_MUST mr_status bundle_write(const bundle_item *items, size_t count, bundle_room_fn *room, void *context);

/* Straight into `room` bytes at `out`, a multiple of 8. Returns the size; 0: they are not small values that fit, or
 * they have references inside, and cargo_pack is to have them, or say what is wrong. */
size_t bundle_pack_scalar(const mr_arg *arg, uint8_t out[BUNDLE_SCALAR_MAX]); /* nil, bool, int, float, short text */
static inline size_t bundle_pack_byte(const mr_arg *arg, uint8_t *out) {      /* one that bundle_one_byte reads */
    uint8_t byte;
    if (!value_write_byte(arg, &byte)) return 0;
    const uint64_t words[3] = {1, BUNDLE_BYTE_ENTRY, byte};
    bytes_copy_words(out, words, sizeof words);
    return sizeof words;
}
size_t bundle_pack_small(const bundle_item *items, size_t count, uint8_t *out, size_t room);
/* The room that it needs for arguments, at most BUNDLE_INLINE_MAX; or more, if they can be spread (see below), then at
 * most BUNDLE_SPREAD_MAX; 0: they are not such values. */
size_t bundle_small_size(const bundle_item *items, size_t count);

/* ---- Spreading: a bundle of a few long pieces of data and little else is not packed, but gathered from where the
 * arguments have them. */

enum {
    BUNDLE_SPREAD_MAX = 64 * 1024,
    BUNDLE_SPREAD_REST = 1024, /* of all but the long pieces, */
    BUNDLE_SPREAD_LONG = 8,    /* of which there are so many */
};

typedef struct bundle_spread { /* does not move; its bytes are the pieces, one after the other */
    size_t count;
    span pieces[2 * BUNDLE_SPREAD_LONG + 1]; /* borrowed from the arguments, or of `rest` */
    uint8_t rest[BUNDLE_SPREAD_REST];
} bundle_spread;

/* Arguments for which bundle_small_size said more than BUNDLE_INLINE_MAX. The same bytes as bundle_create's. */
void bundle_spread_init(bundle_spread *spread, const bundle_item *items, size_t count);
