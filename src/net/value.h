/* value.h — encoding of values as bytes: MessagePack, tuples, tensors.
 *
 * A value is MessagePack. Types that MessagePack lacks are extensions; numbers inside extensions are little-endian:
 *
 *   kind     code  payload
 *   -------  ----  -----------------------------------------------------------------------------------------------
 *   tuple    1     one MessagePack array, nothing else
 *   tensor   2     dtype u8, kind u8, dims u8, 0 u8, shape dims × u64, then the data among 7 zero bytes: as many
 *                  before it as align its offset in the value to 8, the others after it
 *            3     dtype u8, kind u8, dims u8, 0 u8, shape dims × u64, buffer u32
 *   bytes    4     buffer u32 (small ones are MessagePack's bin)
 *   ref      5     two u64
 *   actor    6     two u64
 *   custom   7     format u8, first buffer u32, buffers u32, then the data
 *            8     format u8, first buffer u32, buffers u32; the data is the first buffer, which is not counted
 *   error    9     for the error, then each further cause: code u32, message size u32, origin size u32,
 *                  message, origin; at most VALUE_ERRORS_MAX
 *
 * The data of large tensors, bytes and custom objects is not in the value but in separate buffers; `buffer` is an index
 * into their table. Every buffer is referenced exactly once, in the order of the table. Value and table form a payload:
 *
 *   offset      size  payload
 *   -----------  ----  ---------------------------------------------------------------
 *   0            4     value_size
 *   4            4     buffer_count
 *   8           16 n  for each buffer: offset u64, size u64, in the payload's region
 *   8 + 16 n           the value, value_size bytes, and nothing after it
 *
 * The region contains the buffers: it is the body of the message that has the payload in its head, or an extent of
 * shared memory that the message refers to. Offsets in it are multiples of 64, so a tensor can be used in place if
 * payload and region are aligned to 8 and 64: a receiver with other alignments copies them first.
 *
 * The reader accepts any well-formed MessagePack of these types, with any width of numbers and lengths; 32-bit floats
 * become 64-bit floats. The encoder writes one form: shortest numbers and lengths, 64-bit floats, and tuples with the
 * longest header, so that their size can be filled in afterwards. Ints above INT64_MAX are refused.
 *
 * A value is at most 4 GB without its buffers, and nested at most VALUE_DEPTH_MAX deep. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/value.h"

enum {
    VALUE_DEPTH_MAX = 64,
    VALUE_ALIGN = 8,         /* of a payload in memory */
    VALUE_BUFFER_ALIGN = 64, /* of a region in memory, and of buffers within it */
    VALUE_SKIPS_FEW = 16,
    VALUE_ERRORS_MAX = 16,
};
#define VALUE_SIZE_MAX UINT32_MAX
#define VALUE_BODY_MAX ((uint64_t)1 << 56) /* all buffers of a value; sums do not overflow */

/* Maximum number of items of a list or tuple, or of pairs of a map. */
static inline size_t value_count_max(mr_kind kind) { return kind == MR_KIND_MAP ? VALUE_SIZE_MAX / 2 : VALUE_SIZE_MAX; }

enum { VALUE_KIND_NONE = 255 }; /* kind of an argument made from NULL, which is no value */
enum { VALUE_DRAFT = 1 };       /* out_of_line_min of a value with tensors written later: each is a buffer */

enum value_ext {
    VALUE_EXT_NONE = 0,
    VALUE_EXT_TUPLE = 1,
    VALUE_EXT_TENSOR = 2,
    VALUE_EXT_TENSOR_OUT = 3,
    VALUE_EXT_BYTES_OUT = 4,
    VALUE_EXT_REF = 5,
    VALUE_EXT_ACTOR = 6,
    VALUE_EXT_CUSTOM = 7,
    VALUE_EXT_CUSTOM_OUT = 8,
    VALUE_EXT_ERROR = 9,
};

typedef struct value_payload_header {
    uint32_t value_size, buffer_count;
} value_payload_header;

typedef struct value_payload_entry {
    uint64_t offset, size;
} value_payload_entry;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "parcels are read and written as they lie in memory");
_Static_assert(sizeof(value_payload_header) == 8 && offsetof(value_payload_header, buffer_count) == 4, "layout");
_Static_assert(sizeof(value_payload_entry) == 16 && offsetof(value_payload_entry, size) == 8, "layout");

/* ---- Sending: measure, allocate, write.
 *
 *     value_plan plan;
 *     MR_TRY(value_measure(&arg, 4096, &plan));
 *     … room for plan.size bytes and for plan.buffer_count buffers …
 *     value_write(&arg, &plan, room, buffers);
 *     … a body of value_body_size(buffers, plan.buffer_count) bytes: value_body_write, or if there is one buffer only,
 *     the buffer itself …
 */

struct value_doc;

typedef struct value_plan {
    size_t size; /* of the payload */
    uint32_t value_size, buffer_count;
    uint32_t apart_size, apart_count; /* the long data that may be written apart */
    bool has_refs;                    /* the value contains futures or handles */
    size_t out_of_line_min;
} value_plan;

typedef struct value_buffer { /* data is borrowed from the argument */
    const void *data;         /* NULL in a draft: written later */
    uint64_t size;
    uint64_t offset; /* within the region */
} value_buffer;

/* Checks the whole argument. Tensors, bytes and custom data of at least out_of_line_min bytes will be buffers, as
 * always the buffers of custom objects. With VALUE_DRAFT a tensor may lack its data. MR_INVALID: no value; the text
 * names the place in the tree. MR_TOO_LARGE. */
MR_MUST mr_status value_measure(const mr_arg *arg, size_t out_of_line_min, value_plan *out);

/* Writes the payload, plan->size bytes, and stores plan->buffer_count buffers with consecutive offsets in a body. The
 * argument must be the measured one, unchanged since; a change is a programming error. */
void value_write(const mr_arg *arg, const value_plan *plan, uint8_t *payload, value_buffer *buffers);

/* Writes the table again, for buffers whose offsets refer to another region. */
void value_write_table(uint8_t *payload, const value_buffer *buffers, uint32_t count);

uint64_t value_body_size(const value_buffer *buffers, uint32_t count);
void value_body_write(const value_buffer *buffers, uint32_t count, uint8_t *body); /* gaps are zeroed */

/* ---- Plain values: values without buffers, encoded as bytes without a payload. */

enum { VALUE_SCALAR_MAX = 9 };

/* Writes the measured value, plan->value_size bytes, without a payload. The value must have no buffers. */
void value_write_plain(const mr_arg *arg, const value_plan *plan, uint8_t *value);

/* As value_write_plain, but the data of tensors, bytes and strs of at least VALUE_APART bytes is not copied: writes the
 * other bytes of the value contiguously, plan->value_size - plan->apart_size of them, and stores plan->apart_count
 * parts that belong between them. */
enum { VALUE_APART = 1024 };
typedef struct value_apart { /* borrowed from the argument */
    span data;
    size_t at; /* number of the other bytes before it */
} value_apart;
void value_write_apart(const mr_arg *arg, const value_plan *plan, uint8_t *rest, value_apart *apart);

/* Writes nil, bool, int or float in one step: returns its size, at most VALUE_SCALAR_MAX; 0: another kind. */
size_t value_write_scalar(const mr_arg *arg, uint8_t *out);
/* The same for nil, bool and small ints, which take one byte. False: another value. */
static inline bool value_write_byte(const mr_arg *arg, uint8_t *out) {
    bool small = arg->kind == MR_KIND_INT && arg->i >= 0 && arg->i <= 0x7f;
    if (arg->received || (arg->kind > MR_KIND_BOOL && !small)) return false;
    *out = arg->kind == MR_KIND_NIL ? 0xc0 : small ? (uint8_t)arg->i : arg->b ? 0xc3 : 0xc2;
    return true;
}

/* Writes a str or bytes of at most VALUE_SHORT_MAX bytes as two words, padded with zeros: returns its size; 0: another
 * value, or one with a fault that value_measure reports. */
enum { VALUE_SHORT_MAX = 14 };
size_t value_write_short(const mr_arg *arg, uint64_t out[2]);

/* Writes a str or bytes of less than `limit` bytes in one step: returns its size, at most `room`; 0: another value, no
 * room, or a fault that value_measure reports. */
size_t value_write_text(const mr_arg *arg, size_t limit, uint8_t *out, size_t room);

/* Opens bytes that are aligned to VALUE_ALIGN and borrowed until value_close. Fails as value_open does. */
MR_MUST mr_status value_open_plain(struct value_doc *doc, span bytes, mr_value *root);
bool value_read_longer(span bytes, mr_value *out); /* value_read_scalar for more than one byte */
/* Reads nil, bool, int or float: a view that needs no document and no release. False: another kind, or incomplete. */
static inline bool value_read_scalar(span bytes, mr_value *out) {
    if (bytes.size != 1 || (bytes.data[0] > 0x7f && bytes.data[0] != 0xc0)) return value_read_longer(bytes, out);
    bool is_nil = bytes.data[0] == 0xc0; /* otherwise a small int */
    *out = (mr_value){{0, is_nil ? MR_KIND_NIL : MR_KIND_INT, is_nil ? 0 : bytes.data[0]}};
    return true;
}

/* ---- Receiving: open, read with the functions of miniray/value.h, close.
 *
 * Opening checks everything in one pass, without recursion. It allocates only an index with one small entry for each
 * list, tuple and map that is not empty, so that iteration can skip them; the first VALUE_SKIPS_FEW entries need no
 * allocation. A value that another process changes while it is open (in shared memory) may read as arbitrary data, but
 * reads stay within the payload and the region. */

typedef struct value_skip { /* entry of one container, in the order of their beginnings */
    uint32_t end;           /* offset after the container in the value */
    uint32_t next;          /* index of the first container that begins after it */
} value_skip;

typedef struct value_doc { /* used in place; must not move while views of it exist; may be read by several threads */
    span bytes;            /* the value's bytes; borrowed */
    span region;           /* borrowed */
    const uint8_t *table;  /* borrowed */
    uint32_t buffer_count;
    uint32_t skip_count, skip_capacity;
    value_skip *skips;                      /* `few`, or owned */
    void (*release)(struct value_doc *doc); /* called by mr_value_release of the root; may be NULL */
    value_skip few[VALUE_SKIPS_FEW];
} value_doc;

/* Payload and region are borrowed until value_close. MR_CORRUPT and MR_TOO_LARGE: the text names the fault and its
 * place. MR_INVALID: wrong alignment in memory. MR_NOMEM. */
MR_MUST mr_status value_open(value_doc *doc, span payload, span region, mr_value *root);
void value_close(value_doc *doc);

/* The steps of value_open. */
static inline void value_doc_init(value_doc *doc) {
    doc->skips = doc->few;
    doc->skip_count = 0;
    doc->skip_capacity = VALUE_SKIPS_FEW;
    doc->release = NULL;
}
MR_MUST mr_status value_payload_open(value_doc *doc, span payload, span region);
MR_MUST mr_status value_check(value_doc *doc, mr_value *root);

/* Whether both are containers of one kind with the same bytes and without buffers, and therefore equal. False does not
 * mean that they differ. */
bool value_same_bytes(const mr_value *a, const mr_value *b);

/* Finds one buffer; false if the index does not exist or the buffer is not within the region. */
bool value_doc_buffer(const value_doc *doc, uint64_t index, mr_span *out);
