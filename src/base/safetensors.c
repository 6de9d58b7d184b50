/* safetensors.c — see safetensors.h. */
#include "base/safetensors.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define METADATA "__metadata__"
enum { HEAD = 8, ALIGN = 8 };

static const struct {
    const char *name;
    size_t item;
} dtypes[] = {
#define X(name, size) {#name, size},
    SAFETENSORS_DTYPES(X)
#undef X
};

const char *safetensors_dtype_name(safetensors_dtype dtype) { return dtypes[dtype].name; }
size_t safetensors_item(safetensors_dtype dtype) { return dtypes[dtype].item; }

/* ---- The list. */

void safetensors_fini(safetensors *list) {
    for (size_t i = 0; i < list->text_count; i++) free(list->texts[i].value);
    free(list->texts);
    free(list->tensors);
    *list = (safetensors){0};
}

static safetensor *grow_tensors(safetensors *list) {
    xgrow(&list->tensors, &list->room, list->count + 1, sizeof *list->tensors);
    safetensor *tensor = &list->tensors[list->count++];
    *tensor = (safetensor){0};
    return tensor;
}

static safetensors_text *grow_texts(safetensors *list) {
    xgrow(&list->texts, &list->text_room, list->text_count + 1, sizeof *list->texts);
    safetensors_text *text = &list->texts[list->text_count++];
    *text = (safetensors_text){0};
    return text;
}

/* Returns false if the size does not fit into 64 bits. */
static bool size_of(const safetensor *tensor, uint64_t *out) {
    uint64_t size = safetensors_item(tensor->dtype);
    for (uint32_t i = 0; i < tensor->dims; i++)
        if (__builtin_mul_overflow(size, tensor->shape[i], &size)) return false;
    *out = size;
    return true;
}

void safetensors_add(safetensors *list, const char *name, safetensors_dtype dtype, const uint64_t *shape, uint32_t dims,
                     const void *data) {
    MR_ASSERT(strlen(name) < SAFETENSORS_NAME_MAX && dims <= SAFETENSORS_DIMS_MAX && strcmp(name, METADATA) != 0);
    safetensor *tensor = grow_tensors(list);
    uint64_t size;
    strcpy(tensor->name, name);
    tensor->dtype = dtype;
    tensor->dims = dims;
    if (dims != 0) memcpy(tensor->shape, shape, dims * sizeof *shape);
    bool fits = size_of(tensor, &size);
    MR_ASSERT(fits);
    tensor->data = span_of(data, size);
}

void safetensors_add_put(safetensors *list, const char *name, safetensors_dtype dtype, const uint64_t *shape,
                         uint32_t dims, const void *data, safetensors_put_fn *put) {
    safetensors_add(list, name, dtype, shape, dims, data);
    list->tensors[list->count - 1].put = put;
}

void safetensors_say(safetensors *list, const char *key, const char *value) {
    MR_ASSERT(strlen(key) < SAFETENSORS_NAME_MAX);
    safetensors_text *text = grow_texts(list);
    strcpy(text->key, key);
    text->value = xstrdup(value);
}

/* ---- Writing. */

static void write_tensor(json *json, const safetensor *tensor, uint64_t at) {
    json_key(json, tensor->name);
    json_object_begin(json);
    json_key(json, "dtype");
    json_string(json, safetensors_dtype_name(tensor->dtype));
    json_key(json, "shape");
    json_array_begin(json);
    for (uint32_t i = 0; i < tensor->dims; i++) json_uint(json, tensor->shape[i]);
    json_array_end(json);
    json_key(json, "data_offsets");
    json_array_begin(json);
    json_uint(json, at);
    json_uint(json, at + tensor->data.size);
    json_array_end(json);
    json_object_end(json);
}

static void write_texts(json *json, const safetensors *list) {
    if (list->text_count == 0) return;
    json_key(json, METADATA);
    json_object_begin(json);
    for (size_t i = 0; i < list->text_count; i++) {
        json_key(json, list->texts[i].key);
        json_string(json, list->texts[i].value);
    }
    json_object_end(json);
}

/* Tensors with larger items come first; the order among equals is that of the list. */
static mr_status write_header(const safetensors *list, buffer *out) {
    json json = json_of(out);
    uint64_t at = 0;
    json_object_begin(&json);
    write_texts(&json, list);
    for (size_t item = ALIGN; item > 0; item /= 2)
        for (size_t i = 0; i < list->count; i++) {
            if (safetensors_item(list->tensors[i].dtype) != item) continue;
            write_tensor(&json, &list->tensors[i], at);
            at += list->tensors[i].data.size;
        }
    json_object_end(&json);
    MR_TRY(json_done(&json));
    while (out->size % ALIGN != 0) MR_TRY(buffer_append(out, " ", 1));
    return MR_OK;
}

static mr_status write_all(const safetensors *list, buffer *header, const byte_sink *out) {
    uint64_t size = header->size;
    MR_TRY(byte_sink_put(out, span_of(&size, sizeof size)));
    MR_TRY(byte_sink_put(out, span_of(header->data, header->size)));
    for (size_t item = ALIGN; item > 0; item /= 2)
        for (size_t i = 0; i < list->count; i++) {
            const safetensor *tensor = &list->tensors[i];
            if (safetensors_item(tensor->dtype) != item || tensor->data.size == 0) continue;
            MR_TRY(tensor->put != NULL ? tensor->put(tensor->data.data, out) : byte_sink_put(out, tensor->data));
        }
    return MR_OK;
}

mr_status safetensors_write(const safetensors *list, buffer *out) {
    buffer_clear(out);
    return safetensors_stream(list, &(byte_sink){buffer_put, out});
}

mr_status safetensors_stream(const safetensors *list, const byte_sink *out) {
    buffer header;
    buffer_init(&header, SAFETENSORS_HEADER_MAX);
    mr_status status =
        list->count > SAFETENSORS_COUNT_MAX || list->text_count > SAFETENSORS_COUNT_MAX
            ? error_set(MR_TOO_LARGE, "%zu tensors: the limit of a file is %d", list->count, SAFETENSORS_COUNT_MAX)
            : write_header(list, &header);
    if (status == MR_OK) status = write_all(list, &header, out);
    buffer_fini(&header);
    return status;
}

/* ---- Reading: the subset of JSON that a header uses. */

typedef struct parser {
    const uint8_t *at, *end;
} parser;

static void skip_spaces(parser *parser) {
    while (parser->at < parser->end &&
           (*parser->at == ' ' || *parser->at == '\n' || *parser->at == '\t' || *parser->at == '\r'))
        parser->at++;
}

static bool take(parser *parser, char what) {
    skip_spaces(parser);
    if (parser->at == parser->end || *parser->at != (uint8_t)what) return false;
    parser->at++;
    return true;
}

static bool take_hex(parser *parser, uint32_t *out) {
    uint32_t value = 0;
    if (parser->end - parser->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        uint8_t digit = *parser->at++, lower = digit | 0x20;
        if (digit >= '0' && digit <= '9')
            value = value << 4 | (uint32_t)(digit - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value << 4 | (uint32_t)(lower - 'a' + 10);
        else
            return false;
    }
    *out = value;
    return true;
}

/* Reads the code after \u; two surrogates make one character above U+FFFF. */
static bool take_code(parser *parser, uint32_t *code) {
    uint32_t low;
    if (!take_hex(parser, code)) return false;
    if (*code < 0xd800 || *code > 0xdfff) return *code != 0;
    if (*code > 0xdbff || parser->end - parser->at < 6 || parser->at[0] != '\\' || parser->at[1] != 'u') return false;
    parser->at += 2;
    if (!take_hex(parser, &low) || low < 0xdc00 || low > 0xdfff) return false;
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static size_t put_code(uint32_t code, uint8_t out[4]) {
    if (code < 0x80) return out[0] = (uint8_t)code, 1;
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size; i-- > 1; code >>= 6) out[i] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(lead[size] | code);
    return size;
}

/* Reads one unescaped character. */
static bool take_utf8(parser *parser, uint8_t out[4], size_t *size) {
    *size = utf8_length(span_of(parser->at, (size_t)(parser->end - parser->at)));
    if (*size == 0 || *parser->at < 0x20) return false;
    memcpy(out, parser->at, *size);
    parser->at += *size;
    return true;
}

static bool take_escape(parser *parser, uint8_t out[4], size_t *size) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    uint32_t code;
    if (parser->at == parser->end) return false;
    uint8_t what = *parser->at++;
    const char *found = what == 0 ? NULL : strchr(from, what);
    if (found != NULL) return out[0] = (uint8_t)to[found - from], *size = 1, true;
    if (what != 'u' || !take_code(parser, &code)) return false;
    *size = put_code(code, out);
    return true;
}

/* Reads a string of less than `room` bytes and appends a NUL. */
static bool take_string(parser *parser, char *out, size_t room) {
    size_t used = 0, size = 0;
    if (!take(parser, '"')) return false;
    for (;;) {
        uint8_t bytes[4];
        if (parser->at == parser->end) return false;
        if (*parser->at == '"') break;
        bool escaped = *parser->at == '\\';
        if (escaped) parser->at++;
        if (escaped ? !take_escape(parser, bytes, &size) : !take_utf8(parser, bytes, &size)) return false;
        if (used + size >= room) return false;
        memcpy(out + used, bytes, size);
        used += size;
    }
    parser->at++;
    out[used] = '\0';
    return true;
}

static bool take_number(parser *parser, uint64_t *out) {
    skip_spaces(parser);
    uint64_t value = 0;
    const uint8_t *from = parser->at;
    for (; parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9'; parser->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *parser->at - '0', &value))
            return false;
    *out = value;
    return parser->at > from && (*from != '0' || parser->at == from + 1);
}

/* Reads an array of at most `most` numbers. */
static bool take_numbers(parser *parser, uint64_t *out, uint32_t most, uint32_t *count) {
    *count = 0;
    if (!take(parser, '[')) return false;
    if (take(parser, ']')) return true;
    do {
        if (*count == most || !take_number(parser, &out[*count])) return false;
        (*count)++;
    } while (take(parser, ','));
    return take(parser, ']');
}

static bool take_dtype(parser *parser, safetensors_dtype *out) {
    char name[8];
    if (!take_string(parser, name, sizeof name)) return false;
    for (int i = 0; i < SAFETENSORS_DTYPE_COUNT; i++)
        if (strcmp(name, dtypes[i].name) == 0) return *out = (safetensors_dtype)i, true;
    return false;
}

/* Reads the fields of a tensor in any order, each once. */
static bool take_tensor(parser *parser, safetensor *tensor, uint64_t offsets[2]) {
    unsigned seen = 0;
    uint32_t count;
    if (!take(parser, '{')) return false;
    do {
        char field[16];
        if (!take_string(parser, field, sizeof field) || !take(parser, ':')) return false;
        unsigned which = strcmp(field, "dtype") == 0          ? 1
                         : strcmp(field, "shape") == 0        ? 2
                         : strcmp(field, "data_offsets") == 0 ? 4
                                                              : 0;
        if (which == 0 || (seen & which) != 0) return false;
        seen |= which;
        if (which == 1 && !take_dtype(parser, &tensor->dtype)) return false;
        if (which == 2 && !take_numbers(parser, tensor->shape, SAFETENSORS_DIMS_MAX, &tensor->dims)) return false;
        if (which == 4 && (!take_numbers(parser, offsets, 2, &count) || count != 2)) return false;
    } while (take(parser, ','));
    return seen == 7 && take(parser, '}');
}

static bool take_texts(parser *parser, safetensors *out) {
    if (!take(parser, '{')) return false;
    if (take(parser, '}')) return true;
    do {
        if (out->text_count == SAFETENSORS_COUNT_MAX) return false;
        safetensors_text *text = grow_texts(out);
        if (!take_string(parser, text->key, sizeof text->key) || !take(parser, ':')) return false;
        size_t room = (size_t)(parser->end - parser->at) + 1; /* no value is longer than the remaining header */
        const uint8_t *quote = memchr(parser->at, '"', (size_t)(parser->end - parser->at));
        if (quote == NULL) return false;
        for (quote++; quote < parser->end && *quote != '"'; quote++)
            if (*quote == '\\') quote++;
        room = quote < parser->end ? (size_t)(quote - parser->at) + 1 : room;
        text->value = xmalloc(room);
        text->value[0] = '\0';
        if (!take_string(parser, text->value, room)) return false;
    } while (take(parser, ','));
    return take(parser, '}');
}

static mr_status wrong(const char *what, const char *name) {
    return error_set(MR_CORRUPT, "malformed safetensors file: %s '%s'", what, name);
}

static mr_status read_tensor(parser *parser, span data, const char *name, safetensors *out) {
    uint64_t offsets[2], size;
    if (out->count == SAFETENSORS_COUNT_MAX) return wrong("too many tensors before", name);
    safetensor *tensor = grow_tensors(out);
    strcpy(tensor->name, name);
    if (!take_tensor(parser, tensor, offsets)) return wrong("wrong dtype, shape or data_offsets of tensor", name);
    if (offsets[0] > offsets[1] || offsets[1] > data.size) return wrong("data outside the file, of", name);
    if (!size_of(tensor, &size) || size != offsets[1] - offsets[0]) return wrong("wrong size of tensor", name);
    tensor->data = span_of(data.data + offsets[0], size);
    return MR_OK;
}

static mr_status read_header(parser *parser, span data, safetensors *out) {
    bool texts = false;
    if (!take(parser, '{')) return wrong("the header does not begin with", "{");
    if (!take(parser, '}')) {
        do {
            char name[SAFETENSORS_NAME_MAX];
            if (!take_string(parser, name, sizeof name) || !take(parser, ':')) return wrong("a malformed name", "");
            if (strcmp(name, METADATA) != 0) {
                MR_TRY(read_tensor(parser, data, name, out));
                continue;
            }
            if (texts || !take_texts(parser, out)) return wrong("only strings may be in", name);
            texts = true;
        } while (take(parser, ','));
        if (!take(parser, '}')) return wrong("the header does not end with", "}");
    }
    skip_spaces(parser);
    return parser->at == parser->end ? MR_OK : wrong("more text follows the header's", "}");
}

/* ---- Whole files. */

static int by_place(const void *a, const void *b) {
    const safetensor *left = a, *right = b;
    if (left->data.data != right->data.data) return left->data.data < right->data.data ? -1 : 1;
    return (left->data.size > right->data.size) - (left->data.size < right->data.size);
}
static int by_name(const void *a, const void *b) {
    return strcmp(((const safetensor *)a)->name, ((const safetensor *)b)->name);
}
static int by_key(const void *a, const void *b) {
    return strcmp(((const safetensors_text *)a)->key, ((const safetensors_text *)b)->key);
}

static mr_status check(safetensors *list, span data) {
    const uint8_t *at = data.data;
    if (list->count != 0) qsort(list->tensors, list->count, sizeof *list->tensors, by_place);
    for (size_t i = 0; i < list->count; at += list->tensors[i++].data.size)
        if (list->tensors[i].data.data != at)
            return wrong("a gap or an overlap before the data of tensor", list->tensors[i].name);
    if (at != data.data + data.size) return wrong("data of no tensor", "");
    if (list->count != 0) qsort(list->tensors, list->count, sizeof *list->tensors, by_name);
    for (size_t i = 1; i < list->count; i++)
        if (by_name(&list->tensors[i - 1], &list->tensors[i]) == 0) return wrong("two of", list->tensors[i].name);
    if (list->text_count != 0) qsort(list->texts, list->text_count, sizeof *list->texts, by_key);
    for (size_t i = 1; i < list->text_count; i++)
        if (by_key(&list->texts[i - 1], &list->texts[i]) == 0) return wrong("two of", list->texts[i].key);
    return MR_OK;
}

mr_status safetensors_read(span file, safetensors *out) {
    reader reader = reader_of(file.data, file.size);
    uint64_t size = reader_u64(&reader);
    *out = (safetensors){0};
    if (reader.failed || size > reader_left(&reader) || size > SAFETENSORS_HEADER_MAX)
        return wrong("a header longer than the file or the limit", "");
    const uint8_t *header = reader_bytes(&reader, size);
    parser parser = {header, header + size};
    span data = span_of(reader.at, reader_left(&reader));
    mr_status status = read_header(&parser, data, out);
    if (status == MR_OK) status = check(out, data);
    if (status != MR_OK) safetensors_fini(out);
    return status;
}

const safetensor *safetensors_find(const safetensors *list, const char *name) {
    safetensor key;
    snprintf(key.name, sizeof key.name, "%s", name);
    return list->count == 0 ? NULL : bsearch(&key, list->tensors, list->count, sizeof *list->tensors, by_name);
}

const char *safetensors_text_of(const safetensors *list, const char *key) {
    safetensors_text wanted;
    snprintf(wanted.key, sizeof wanted.key, "%s", key);
    const safetensors_text *found =
        list->text_count == 0 ? NULL : bsearch(&wanted, list->texts, list->text_count, sizeof *list->texts, by_key);
    return found == NULL ? NULL : found->value;
}
