/* value_encode.c — arguments to bytes, in two passes.
 *
 * The first pass checks the tree and adds up sizes; the second writes into memory of exactly that size. An item's size
 * does not depend on its place (a tensor's data is padded to 7 bytes in all, a tuple's header has one length), so sizes
 * simply add. Both passes read arguments through the same two helpers: `leaf`, which converts a received value that is
 * passed on to an argument, and `children`, which iterates over the items of a container of either kind.
 *
 * Recursion follows containers only and ends at VALUE_DEPTH_MAX. */
#include <msgpuck.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/value_extension.h"
#include "net/value_utf8.h"

/* ---- Uniform access to arguments and to received values that are passed on. */

typedef struct leaf {
    const mr_arg *arg; /* the caller's, or `own` */
    mr_arg own;
    mr_tensor tensor;
    mr_custom custom;
    const mr_value *value; /* the value with the buffers of a custom object; NULL: they are in custom.buffers */
} leaf;

static mr_status read_received(const mr_value *value, leaf *out) {
    mr_arg *arg = &out->own;
    *arg = (mr_arg){.kind = mr_value_kind(value)};
    out->arg = arg;
    out->value = value;
    switch (arg->kind) {
    case MR_KIND_BOOL: return mr_value_bool(value, &arg->b);
    case MR_KIND_INT: return mr_value_int(value, &arg->i);
    case MR_KIND_FLOAT: return mr_value_float(value, &arg->f);
    case MR_KIND_STR: return mr_value_str(value, &arg->bytes);
    case MR_KIND_BYTES: return mr_value_bytes(value, &arg->bytes);
    case MR_KIND_REF: return mr_value_ref(value, &arg->ref);
    case MR_KIND_ACTOR: return mr_value_actor(value, &arg->actor);
    case MR_KIND_ERROR: {
        span texts = value_payload(value_view_doc(value), value->word[2]);
        arg->bytes = (mr_span){texts.data, texts.size};
        return MR_OK;
    }
    case MR_KIND_TENSOR:
        MR_TRY(mr_value_tensor(value, &out->tensor));
        *arg = mr_tensor_arg(&out->tensor);
        return MR_OK;
    case MR_KIND_CUSTOM:
        MR_TRY(mr_value_custom(value, &out->custom));
        *arg = mr_custom_arg(&out->custom);
        return MR_OK;
    default: return MR_OK;
    }
}

static mr_status read_leaf(const mr_arg *arg, leaf *out) {
    if (arg->received) return read_received(arg->value, out);
    out->arg = arg;
    out->value = NULL;
    return MR_OK;
}

static mr_status leaf_buffer(const leaf *leaf, size_t index, mr_span *out) {
    if (leaf->value != NULL) return mr_value_buffer(leaf->value, index, out);
    *out = leaf->arg->custom->buffers[index];
    return MR_OK;
}

typedef struct children {
    const mr_arg *next; /* NULL: the iterator gives the items */
    mr_iter iter;
    mr_value value;
    mr_arg arg;
} children;

static children children_of(const mr_arg *arg) {
    if (!arg->received) return (children){.next = arg->items.first};
    return (children){.iter = mr_value_iter(arg->value)};
}

/* The item is borrowed until the next call. */
static const mr_arg *next_child(children *children) {
    if (children->next != NULL) return children->next++;
    (void)mr_iter_next(&children->iter, &children->value); /* nil if there is none: only if its bytes were changed */
    children->arg = mr_value_arg(&children->value);
    return &children->arg;
}

static size_t count_of(const mr_arg *arg) { return arg->received ? mr_value_count(arg->value) : arg->items.count; }

static const int64_t *shape_of(const mr_arg *tensor) {
    return tensor->array.shape != NULL ? tensor->array.shape : &tensor->array.length;
}

static bool goes_out(size_t size, size_t out_of_line_min) { return size >= out_of_line_min && size != 0; }

static uint32_t ext_header_size(uint64_t size) {
    if (size == 1 || size == 2 || size == 4 || size == 8 || size == 16) return 2;
    return size <= UINT8_MAX ? 3 : size <= UINT16_MAX ? 4 : 6;
}

enum { TUPLE_HEADER_SIZE = 6 };

/* ---- The first pass. */

typedef struct measure {
    size_t out_of_line_min;
    uint64_t size;
    uint64_t buffer_count, buffer_size;
    uint64_t apart_size, apart_count;
    bool has_refs;
    int wraps; /* containers named in the text of a failure so far */
} measure;

/* Refuses an invalid size or pointer before the bytes are read or added up. */
static mr_status check_memory(mr_span bytes, const char *what) {
    if (bytes.size > VALUE_BODY_MAX)
        return error_set(MR_TOO_LARGE, "%s of %zu bytes: the limit is 2^56", what, bytes.size);
    if (bytes.data != NULL || bytes.size == 0) return MR_OK;
    return error_set(MR_INVALID, "%s of %zu bytes whose pointer is NULL", what, bytes.size);
}

/* Adds bytes within the value. The sum stays below 2^33 and cannot overflow. */
static mr_status add(measure *m, uint64_t header, uint64_t size) {
    if (size > VALUE_SIZE_MAX || m->size + header + size > VALUE_SIZE_MAX)
        return error_set(MR_TOO_LARGE, "a value of more than %u bytes beside its buffers", VALUE_SIZE_MAX);
    m->size += header + size;
    return MR_OK;
}

/* Adds an out-of-line buffer. The sum stays below 2^57. */
static mr_status add_buffer(measure *m, uint64_t size) {
    if (size > VALUE_BODY_MAX || m->buffer_size + size > VALUE_BODY_MAX)
        return error_set(MR_TOO_LARGE, "the buffers of the value exceed 2^56 bytes");
    m->buffer_size += size;
    m->buffer_count++;
    return MR_OK;
}

/* As add, for data that may be written apart. */
static mr_status add_data(measure *m, uint64_t header, uint64_t size) {
    if (size >= VALUE_APART) {
        m->apart_count++;
        m->apart_size += size;
    }
    return add(m, header, size);
}

static mr_status measure_bytes(measure *m, const mr_arg *arg, bool in_key) {
    MR_TRY(check_memory(arg->bytes, "bytes"));
    if (!in_key && goes_out(arg->bytes.size, m->out_of_line_min)) {
        MR_TRY(add_buffer(m, arg->bytes.size));
        return add(m, ext_header_size(VALUE_INDEX_SIZE), VALUE_INDEX_SIZE);
    }
    return add_data(m, mp_sizeof_binl((uint32_t)arg->bytes.size), arg->bytes.size);
}

static mr_status measure_str(measure *m, const mr_arg *arg) {
    MR_TRY(check_memory(arg->bytes, "a str"));
    if (arg->bytes.size > VALUE_SIZE_MAX) return add(m, 0, arg->bytes.size); /* too large, so it is not read */
    if (!value_utf8_valid(span_of(arg->bytes.data, arg->bytes.size)))
        return error_set(MR_INVALID, "a str that is not UTF-8");
    return add_data(m, mp_sizeof_strl((uint32_t)arg->bytes.size), arg->bytes.size);
}

static mr_status measure_error(measure *m, const mr_arg *arg) {
    mr_error first;
    size_t count;
    MR_TRY(check_memory(arg->bytes, "an error"));
    const char *wrong = value_extension_error(span_of(arg->bytes.data, arg->bytes.size), 0, &first, &count);
    if (wrong != NULL) return error_set(MR_INVALID, "%s", wrong);
    return add(m, ext_header_size(arg->bytes.size), arg->bytes.size);
}

static mr_status measure_tensor(measure *m, const mr_arg *arg) {
    size_t bytes;
    if (arg->array.shape == NULL && arg->dims > 1)
        return error_set(MR_INVALID, "%d dimensions whose shape is NULL", arg->dims);
    const char *wrong = value_tensor_bytes(arg->dtype, arg->dims, shape_of(arg), &bytes);
    if (wrong != NULL) return error_set(MR_INVALID, "%s", wrong);
    if (arg->tensor_kind > MR_NUMPY_WRITABLE)
        return error_set(MR_INVALID, "a tensor of unknown kind %d", (int)arg->tensor_kind);
    if (m->out_of_line_min != VALUE_DRAFT) MR_TRY(check_memory((mr_span){arg->array.data, bytes}, "a tensor"));
    uint64_t payload = VALUE_TENSOR_FIXED + 8 * (uint64_t)arg->dims;
    if (goes_out(bytes, m->out_of_line_min)) {
        MR_TRY(add_buffer(m, bytes));
        payload += VALUE_INDEX_SIZE;
        return add(m, ext_header_size(payload), payload);
    }
    payload += VALUE_TENSOR_SLACK;
    return add_data(m, ext_header_size(payload + bytes) + payload, bytes);
}

static mr_status measure_custom(measure *m, const leaf *leaf) {
    const mr_custom *custom = leaf->arg->custom;
    if (custom->format < 1 || custom->format > UINT8_MAX)
        return error_set(MR_INVALID, "a custom object of format %d: formats are 1 to 255", custom->format);
    MR_TRY(check_memory(custom->data, "a custom object"));
    if (leaf->value == NULL && custom->buffers == NULL && custom->buffer_count != 0)
        return error_set(MR_INVALID, "a custom object of %zu buffers whose pointer is NULL", custom->buffer_count);
    for (size_t i = 0; i < custom->buffer_count; i++) {
        mr_span buffer;
        MR_TRY(leaf_buffer(leaf, i, &buffer));
        MR_TRY(check_memory(buffer, "a buffer"));
        MR_TRY(add_buffer(m, buffer.size));
    }
    uint64_t payload = VALUE_CUSTOM_FIXED;
    if (goes_out(custom->data.size, m->out_of_line_min))
        MR_TRY(add_buffer(m, custom->data.size));
    else
        payload += custom->data.size;
    return add(m, ext_header_size(payload), payload);
}

static mr_status measure_leaf(measure *m, const mr_arg *from, bool in_key) {
    leaf leaf;
    MR_TRY(read_leaf(from, &leaf));
    const mr_arg *arg = leaf.arg;
    switch (arg->kind) {
    case MR_KIND_NIL:
    case MR_KIND_BOOL: return add(m, 1, 0);
    case MR_KIND_INT: return add(m, arg->i >= 0 ? mp_sizeof_uint((uint64_t)arg->i) : mp_sizeof_int(arg->i), 0);
    case MR_KIND_FLOAT: return add(m, mp_sizeof_double(arg->f), 0);
    case MR_KIND_STR: return measure_str(m, arg);
    case MR_KIND_BYTES: return measure_bytes(m, arg, in_key);
    case MR_KIND_TENSOR: return measure_tensor(m, arg);
    case MR_KIND_REF:
    case MR_KIND_ACTOR: m->has_refs = true; return add(m, ext_header_size(VALUE_REF_SIZE), VALUE_REF_SIZE);
    case MR_KIND_CUSTOM: return measure_custom(m, &leaf);
    case MR_KIND_ERROR: return measure_error(m, arg);
    default:
        if ((int)arg->kind == VALUE_KIND_NONE) return error_set(MR_INVALID, "an argument made by mr_str(NULL)");
        return error_set(MR_INVALID, "an argument of unknown kind %d", (int)arg->kind);
    }
}

static mr_status measure_arg(measure *m, const mr_arg *arg, int depth, bool in_key);

/* Adds the place of the failing item to the text, up to VALUE_PATH_LEVELS containers; shows the key if it is a str
 * argument. */
static mr_status wrap_item(measure *m, mr_status status, mr_kind kind, size_t index, const mr_arg *key) {
    if (m->wraps > VALUE_PATH_LEVELS) return status;
    if (m->wraps++ == VALUE_PATH_LEVELS) return error_wrap(status, "…");
    if (kind != MR_KIND_MAP) return error_wrap(status, "%s item %zu", mr_kind_name(kind), index);
    if (index % 2 == 0) return error_wrap(status, "key number %zu of a map", index / 2);
    if (key->kind != MR_KIND_STR) return error_wrap(status, "value number %zu of a map", index / 2);
    int length = key->bytes.size < VALUE_PATH_KEY ? (int)key->bytes.size : VALUE_PATH_KEY;
    return error_wrap(status, "map key '%.*s'", length, (const char *)key->bytes.data);
}

static mr_status measure_items(measure *m, const mr_arg *arg, int depth, bool in_key) {
    const size_t count = count_of(arg);
    const bool is_map = arg->kind == MR_KIND_MAP;
    if (depth > VALUE_DEPTH_MAX) return error_set(MR_TOO_LARGE, "nested more than %d levels deep", VALUE_DEPTH_MAX);
    if (count > value_count_max(arg->kind))
        return error_set(MR_TOO_LARGE, "a %s of %zu items, over the limit", mr_kind_name(arg->kind), count);
    if (!arg->received && arg->items.first == NULL && count != 0)
        return error_set(MR_INVALID, "a %s of %zu items whose pointer is NULL", mr_kind_name(arg->kind), count);
    uint32_t header = is_map ? mp_sizeof_map((uint32_t)count) : mp_sizeof_array((uint32_t)count);
    MR_TRY(add(m, header + (arg->kind == MR_KIND_TUPLE ? TUPLE_HEADER_SIZE : 0), 0));
    children children = children_of(arg);
    mr_arg key = mr_nil();
    for (size_t i = 0; i < (is_map ? 2 * count : count); i++) {
        const mr_arg *child = next_child(&children);
        const bool is_key = is_map && i % 2 == 0;
        mr_status status = measure_arg(m, child, depth, in_key || is_key);
        if (status != MR_OK) return wrap_item(m, status, arg->kind, i, &key);
        if (is_key) key = child->received ? mr_nil() : *child;
    }
    return MR_OK;
}

static mr_status measure_arg(measure *m, const mr_arg *arg, int depth, bool in_key) {
    if (in_key && !value_is_key(arg->kind))
        return error_set(MR_INVALID, "a %s cannot be a map key", mr_kind_name(arg->kind));
    if (value_is_container(arg->kind)) return measure_items(m, arg, depth + 1, in_key);
    return measure_leaf(m, arg, in_key);
}

mr_status value_measure(const mr_arg *arg, size_t out_of_line_min, value_plan *out) {
    measure m = {.out_of_line_min = out_of_line_min};
    MR_TRY(measure_arg(&m, arg, 0, false));
    if (m.buffer_count > UINT32_MAX)
        return error_set(MR_TOO_LARGE, "a value with %llu buffers: the limit is 2^32",
                         (unsigned long long)m.buffer_count);
    *out = (value_plan){
        .size = sizeof(value_payload_header) + m.buffer_count * sizeof(value_payload_entry) + m.size,
        .value_size = (uint32_t)m.size,
        .buffer_count = (uint32_t)m.buffer_count,
        .apart_size = (uint32_t)m.apart_size,
        .apart_count = (uint32_t)m.apart_count,
        .has_refs = m.has_refs,
        .out_of_line_min = out_of_line_min,
    };
    return MR_OK;
}

/* ---- The second pass. All sizes were measured, so overflow is asserted. */

typedef struct pen {
    char *start, *at, *end;
    size_t out_of_line_min;
    value_buffer *buffers;
    uint32_t buffer_count, buffer_max;
    uint64_t body_size;
    value_apart *apart; /* NULL: nothing is written apart */
    uint32_t apart_count, apart_max;
    size_t absent; /* bytes written apart so far */
} pen;

/* The writer's position in the value. */
static size_t place_of(const pen *pen) { return (size_t)(pen->at - pen->start) + pen->absent; }

static char *room(pen *pen, uint64_t size) {
    MR_ASSERT((uint64_t)(pen->end - pen->at) >= size);
    return pen->at;
}

static void put_bytes(pen *pen, const void *data, size_t size) {
    char *at = room(pen, size);
    if (size != 0) memcpy(at, data, size);
    pen->at = at + size;
}

/* Writes data that may be written apart. */
static void put_data(pen *pen, const void *data, size_t size) {
    if (pen->apart == NULL || size < VALUE_APART) {
        put_bytes(pen, data, size);
        return;
    }
    MR_ASSERT(pen->apart_count < pen->apart_max);
    pen->apart[pen->apart_count++] = (value_apart){span_of(data, size), (size_t)(pen->at - pen->start)};
    pen->absent += size;
}

static void put_zeros(pen *pen, size_t size) {
    memset(room(pen, size), 0, size);
    pen->at += size;
}

static void put_u32(pen *pen, uint32_t number) { put_bytes(pen, &number, sizeof number); }

/* Assigns an out-of-line buffer the next aligned offset in the body. */
static uint32_t put_buffer(pen *pen, mr_span bytes) {
    MR_ASSERT(pen->buffer_count < pen->buffer_max);
    uint64_t offset = (pen->body_size + VALUE_BUFFER_ALIGN - 1) & ~(uint64_t)(VALUE_BUFFER_ALIGN - 1);
    pen->buffers[pen->buffer_count] = (value_buffer){.data = bytes.data, .size = bytes.size, .offset = offset};
    pen->body_size = offset + bytes.size;
    return pen->buffer_count++;
}

static void put_ext_header(pen *pen, enum value_ext code, uint64_t size) {
    char *at = room(pen, ext_header_size(size));
    switch (ext_header_size(size)) {
    case 2: at = mp_store_u8(at, (uint8_t)(0xd4 + __builtin_ctz((unsigned)size))); break;
    case 3: at = mp_store_u8(mp_store_u8(at, 0xc7), (uint8_t)size); break;
    case 4: at = mp_store_u16(mp_store_u8(at, 0xc8), (uint16_t)size); break;
    default: at = mp_store_u32(mp_store_u8(at, 0xc9), (uint32_t)size); break;
    }
    pen->at = mp_store_u8(at, (uint8_t)code);
}

static void put_byte_string(pen *pen, const mr_arg *arg, bool in_key) {
    const mr_span bytes = arg->bytes;
    if (arg->kind == MR_KIND_BYTES && !in_key && goes_out(bytes.size, pen->out_of_line_min)) {
        put_ext_header(pen, VALUE_EXT_BYTES_OUT, VALUE_INDEX_SIZE);
        put_u32(pen, put_buffer(pen, bytes));
        return;
    }
    const uint32_t size = (uint32_t)bytes.size;
    if (arg->kind == MR_KIND_STR)
        pen->at = mp_encode_strl(room(pen, mp_sizeof_strl(size)), size);
    else
        pen->at = mp_encode_binl(room(pen, mp_sizeof_binl(size)), size);
    put_data(pen, bytes.data, bytes.size);
}

static void put_tensor(pen *pen, const mr_arg *arg) {
    const int64_t *shape = shape_of(arg);
    size_t bytes = 0;
    MR_ASSERT(value_tensor_bytes(arg->dtype, arg->dims, shape, &bytes) == NULL);
    const bool out = goes_out(bytes, pen->out_of_line_min);
    const uint64_t fixed = VALUE_TENSOR_FIXED + 8 * (uint64_t)arg->dims;
    put_ext_header(pen, out ? VALUE_EXT_TENSOR_OUT : VALUE_EXT_TENSOR,
                   fixed + (out ? VALUE_INDEX_SIZE : VALUE_TENSOR_SLACK + bytes));
    const uint8_t first[VALUE_TENSOR_FIXED] = {arg->dtype, arg->tensor_kind, arg->dims, 0};
    put_bytes(pen, first, sizeof first);
    put_bytes(pen, shape, 8 * (size_t)arg->dims);
    if (out) {
        put_u32(pen, put_buffer(pen, (mr_span){arg->array.data, bytes}));
        return;
    }
    const size_t before = -place_of(pen) & (VALUE_ALIGN - 1);
    put_zeros(pen, before);
    put_data(pen, arg->array.data, bytes);
    put_zeros(pen, VALUE_TENSOR_SLACK - before);
}

static void put_custom(pen *pen, const leaf *leaf) {
    const mr_custom *custom = leaf->arg->custom;
    const bool out = goes_out(custom->data.size, pen->out_of_line_min);
    put_ext_header(pen, out ? VALUE_EXT_CUSTOM_OUT : VALUE_EXT_CUSTOM,
                   VALUE_CUSTOM_FIXED + (out ? 0 : custom->data.size));
    const uint8_t format = (uint8_t)custom->format;
    put_bytes(pen, &format, sizeof format);
    put_u32(pen, pen->buffer_count);
    put_u32(pen, (uint32_t)custom->buffer_count);
    if (out)
        put_buffer(pen, custom->data);
    else
        put_bytes(pen, custom->data.data, custom->data.size);
    for (size_t i = 0; i < custom->buffer_count; i++) {
        mr_span buffer;
        MR_ASSERT(leaf_buffer(leaf, i, &buffer) == MR_OK);
        put_buffer(pen, buffer);
    }
}

static void put_words(pen *pen, enum value_ext code, const uint64_t words[2]) {
    put_ext_header(pen, code, VALUE_REF_SIZE);
    put_bytes(pen, words, VALUE_REF_SIZE);
}

static void put_int(pen *pen, int64_t number) {
    if (number >= 0)
        pen->at = mp_encode_uint(room(pen, mp_sizeof_uint((uint64_t)number)), (uint64_t)number);
    else
        pen->at = mp_encode_int(room(pen, mp_sizeof_int(number)), number);
}

static void put_leaf(pen *pen, const mr_arg *from, bool in_key) {
    leaf leaf;
    MR_ASSERT(read_leaf(from, &leaf) == MR_OK);
    const mr_arg *arg = leaf.arg;
    switch (arg->kind) {
    case MR_KIND_NIL: pen->at = mp_encode_nil(room(pen, 1)); break;
    case MR_KIND_BOOL: pen->at = mp_encode_bool(room(pen, 1), arg->b); break;
    case MR_KIND_INT: put_int(pen, arg->i); break;
    case MR_KIND_FLOAT: pen->at = mp_encode_double(room(pen, mp_sizeof_double(arg->f)), arg->f); break;
    case MR_KIND_STR:
    case MR_KIND_BYTES: put_byte_string(pen, arg, in_key); break;
    case MR_KIND_TENSOR: put_tensor(pen, arg); break;
    case MR_KIND_REF: put_words(pen, VALUE_EXT_REF, arg->ref.word); break;
    case MR_KIND_ACTOR: put_words(pen, VALUE_EXT_ACTOR, arg->actor.word); break;
    case MR_KIND_CUSTOM: put_custom(pen, &leaf); break;
    case MR_KIND_ERROR:
        put_ext_header(pen, VALUE_EXT_ERROR, arg->bytes.size);
        put_bytes(pen, arg->bytes.data, arg->bytes.size);
        break;
    default: MR_UNREACHABLE();
    }
}

static void put_arg(pen *pen, const mr_arg *arg, bool in_key) {
    if (!value_is_container(arg->kind)) {
        put_leaf(pen, arg, in_key);
        return;
    }
    const uint32_t count = (uint32_t)count_of(arg);
    const bool is_map = arg->kind == MR_KIND_MAP, is_tuple = arg->kind == MR_KIND_TUPLE;
    char *header = room(pen, is_tuple ? TUPLE_HEADER_SIZE : 0);
    const size_t begin = place_of(pen);
    if (is_tuple) pen->at += TUPLE_HEADER_SIZE;
    pen->at = is_map ? mp_encode_map(room(pen, mp_sizeof_map(count)), count)
                     : mp_encode_array(room(pen, mp_sizeof_array(count)), count);
    children children = children_of(arg);
    for (uint64_t i = 0; i < (is_map ? 2 * (uint64_t)count : count); i++)
        put_arg(pen, next_child(&children), in_key || (is_map && i % 2 == 0));
    if (is_tuple) {
        const size_t size = place_of(pen) - begin - TUPLE_HEADER_SIZE;
        mp_store_u8(mp_store_u32(mp_store_u8(header, 0xc9), (uint32_t)size), VALUE_EXT_TUPLE);
    }
}

static void write_value(const mr_arg *arg, const value_plan *plan, uint8_t *value, value_buffer *buffers,
                        value_apart *apart) {
    char *start = (char *)value;
    pen pen = {.start = start,
               .at = start,
               .end = start + plan->value_size - (apart == NULL ? 0 : plan->apart_size),
               .apart = apart,
               .apart_max = plan->apart_count,
               .out_of_line_min = plan->out_of_line_min,
               .buffers = buffers,
               .buffer_max = plan->buffer_count};
    put_arg(&pen, arg, false);
    MR_ASSERT(pen.at == pen.end && pen.buffer_count == plan->buffer_count);
}

void value_write(const mr_arg *arg, const value_plan *plan, uint8_t *payload, value_buffer *buffers) {
    const value_payload_header header = {plan->value_size, plan->buffer_count};
    write_value(arg, plan, payload + (plan->size - plan->value_size), buffers, NULL);
    memcpy(payload, &header, sizeof header);
    value_write_table(payload, buffers, plan->buffer_count);
}

void value_write_plain(const mr_arg *arg, const value_plan *plan, uint8_t *value) {
    MR_ASSERT(plan->buffer_count == 0);
    write_value(arg, plan, value, NULL, NULL);
}

void value_write_apart(const mr_arg *arg, const value_plan *plan, uint8_t *rest, value_apart *apart) {
    MR_ASSERT(plan->buffer_count == 0 && apart != NULL);
    write_value(arg, plan, rest, NULL, apart);
}
