/* value_read.c — reading of received values.
 *
 * A view contains its item's header, so most reads do not access the bytes. An iterator skips a container with the
 * document's index and any other item by its length. The bytes were checked when the document was opened; they are read
 * with the same bounds-checked readers again, so that bytes which changed meanwhile do no harm. */
#include <string.h>

#include "base/error.h"
#include "net/value_extension.h"

static const mr_value nil;

mr_kind mr_value_kind(const mr_value *value) { return value_view_kind(value); }

__attribute__((cold)) static mr_status not_a(const mr_value *value, const char *wanted) {
    return error_set(MR_INVALID, "the value is a %s; expected %s", mr_kind_name(value_view_kind(value)), wanted);
}

/* A fault after the checks of value_open means that the bytes have changed. */
__attribute__((cold)) static mr_status changed(const char *wrong) {
    return error_set(MR_CORRUPT, "the value changed while it was open: %s", wrong);
}

static inline mr_status status_of(const char *wrong) { return wrong == NULL ? MR_OK : changed(wrong); }

mr_status mr_value_bool(const mr_value *value, bool *out) {
    if (value_view_kind(value) != MR_KIND_BOOL) return not_a(value, "a bool");
    *out = value->word[2] != 0;
    return MR_OK;
}

mr_status mr_value_int(const mr_value *value, int64_t *out) {
    if (value_view_kind(value) != MR_KIND_INT) return not_a(value, "an int");
    *out = (int64_t)value->word[2];
    return MR_OK;
}

mr_status mr_value_float(const mr_value *value, double *out) {
    const int64_t exact_max = INT64_C(1) << 53, number = (int64_t)value->word[2];
    if (value_view_kind(value) == MR_KIND_FLOAT) {
        memcpy(out, &value->word[2], sizeof *out);
        return MR_OK;
    }
    if (value_view_kind(value) != MR_KIND_INT) return not_a(value, "a float");
    if (number > exact_max || number < -exact_max)
        return error_set(MR_INVALID, "the int %lld is not exact as a float: it is beyond 2^53", (long long)number);
    *out = (double)number;
    return MR_OK;
}

mr_status mr_value_str(const mr_value *value, mr_span *out) {
    if (value_view_kind(value) != MR_KIND_STR) return not_a(value, "a str");
    span text = value_payload(value_view_doc(value), value->word[2]);
    *out = (mr_span){text.data, text.size};
    return MR_OK;
}

mr_status mr_value_bytes(const mr_value *value, mr_span *out) {
    if (value_view_kind(value) != MR_KIND_BYTES) return not_a(value, "bytes");
    value_token token = value_view_token(value);
    return status_of(value_extension_bytes(value_view_doc(value), &token, out));
}

mr_status mr_value_tensor(const mr_value *value, mr_tensor *out) {
    if (value_view_kind(value) != MR_KIND_TENSOR) return not_a(value, "a tensor");
    value_token token = value_view_token(value);
    mr_tensor tensor;
    MR_TRY(status_of(value_extension_tensor(value_view_doc(value), &token, &tensor)));
    *out = tensor;
    return MR_OK;
}

static mr_status words(const mr_value *value, mr_kind kind, const char *wanted, uint64_t out[2]) {
    if (value_view_kind(value) != kind) return not_a(value, wanted);
    value_token token = value_view_token(value);
    return status_of(value_extension_words(value_view_doc(value), &token, out));
}

mr_status mr_value_ref(const mr_value *value, mr_ref *out) { return words(value, MR_KIND_REF, "a ref", out->word); }

mr_status mr_value_actor(const mr_value *value, mr_actor *out) {
    return words(value, MR_KIND_ACTOR, "an actor", out->word);
}

mr_status mr_value_error(const mr_value *value, size_t depth, mr_error *out) {
    if (value_view_kind(value) != MR_KIND_ERROR) return not_a(value, "an error");
    mr_error error;
    size_t count;
    span texts = value_payload(value_view_doc(value), value->word[2]);
    MR_TRY(status_of(value_extension_error(texts, depth, &error, &count)));
    if (depth >= count) return error_set(MR_NOT_FOUND, "the error has no cause %zu: it has %zu", depth, count - 1);
    *out = error;
    return MR_OK;
}

static mr_status custom_of(const mr_value *value, mr_custom *out, value_buffers *named) {
    if (value_view_kind(value) != MR_KIND_CUSTOM) return not_a(value, "a custom object");
    value_token token = value_view_token(value);
    return status_of(value_extension_custom(value_view_doc(value), &token, out, named));
}

mr_status mr_value_custom(const mr_value *value, mr_custom *out) {
    mr_custom custom;
    value_buffers named;
    MR_TRY(custom_of(value, &custom, &named));
    *out = custom;
    return MR_OK;
}

mr_status mr_value_buffer(const mr_value *value, size_t index, mr_span *out) {
    mr_custom custom;
    value_buffers named;
    MR_TRY(custom_of(value, &custom, &named));
    if (index >= custom.buffer_count)
        return error_set(MR_NOT_FOUND, "the custom object has no buffer %zu: it has %zu", index, custom.buffer_count);
    size_t before = named.count - custom.buffer_count; /* 1 if the data is a buffer itself */
    if (!value_doc_buffer(value_view_doc(value), named.first + before + index, out))
        return changed("a buffer is not there any more");
    return MR_OK;
}

/* ---- Containers. An iterator in the words of an mr_iter: the document; offset of the next item (lower 32 bits) and
 * number of remaining items; ordinal of the next container. */

size_t mr_value_count(const mr_value *value) {
    return value_is_container(value_view_kind(value)) ? value_size(value->word[2]) : 0;
}

mr_iter mr_value_iter(const mr_value *value) {
    if (!value_is_container(value_view_kind(value))) return (mr_iter){{0}};
    const uint64_t word = value->word[2];
    const uint32_t count = value_size(word);
    const uint32_t left = value_view_kind(value) == MR_KIND_MAP ? 2 * count : count;
    return (mr_iter){{value->word[0], value_word(value_start(word), left), (uint64_t)value_view_ordinal(value) + 1}};
}

bool mr_iter_next(mr_iter *iter, mr_value *out) {
    const value_doc *doc = (const value_doc *)(uintptr_t)iter->word[0];
    const uint32_t at = value_start(iter->word[1]), left = value_size(iter->word[1]);
    const uint64_t ordinal = iter->word[2];
    value_token token;
    if (left == 0) goto end;
    if (value_is_ref(doc->bytes, at, (uint32_t)doc->bytes.size)) {
        token.kind = MR_KIND_REF;
        token.ext = VALUE_EXT_REF;
        token.word = value_word(at + VALUE_REF_HEAD, VALUE_REF_SIZE);
        iter->word[1] = value_word(at + VALUE_REF_ITEM, left - 1);
        *out = value_view(doc, &token, (uint32_t)ordinal, false);
        return true;
    }
    if (value_token_read(doc->bytes, at, (uint32_t)doc->bytes.size, &token) != NULL) goto end;
    if (value_is_container(token.kind) && value_size(token.word) != 0) {
        if (ordinal >= doc->skip_count) goto end;
        const value_skip skip = doc->skips[ordinal];
        iter->word[1] = value_word(skip.end, left - 1);
        iter->word[2] = skip.next;
    } else {
        iter->word[1] = value_word(token.next, left - 1);
    }
    *out = value_view(doc, &token, (uint32_t)ordinal, false);
    return true;

end: /* or the bytes changed meanwhile, and iteration ends */
    iter->word[1] = value_word(at, 0);
    *out = nil;
    return false;
}

mr_status mr_value_item(const mr_value *value, size_t index, mr_value *out) {
    const mr_kind kind = value_view_kind(value);
    if (kind != MR_KIND_LIST && kind != MR_KIND_TUPLE) return not_a(value, "a list or a tuple");
    if (index >= mr_value_count(value))
        return error_set(MR_NOT_FOUND, "no item %zu: the %s has %zu", index, mr_kind_name(kind), mr_value_count(value));
    mr_iter iter = mr_value_iter(value);
    mr_value item;
    bool there = mr_iter_next(&iter, &item);
    for (size_t i = 0; i < index && there; i++) there = mr_iter_next(&iter, &item);
    if (!there) return changed("an item is not there any more");
    *out = item;
    return MR_OK;
}

/* The bytes of the items of a container that is not empty. */
static bool items_of(const mr_value *value, span *out) {
    if (!value_is_container(value_view_kind(value)) || value_size(value->word[2]) == 0) return false;
    const value_doc *doc = value_view_doc(value);
    const uint32_t ordinal = value_view_ordinal(value), start = value_start(value->word[2]);
    if (doc->buffer_count > 0 || ordinal >= doc->skip_count) return false;
    *out = span_of(doc->bytes.data + start, doc->skips[ordinal].end - start);
    return true;
}

bool value_same_bytes(const mr_value *a, const mr_value *b) {
    span one, two;
    return value_view_kind(a) == value_view_kind(b) && mr_value_count(a) == mr_value_count(b) && items_of(a, &one) &&
           items_of(b, &two) && one.size == two.size && memcmp(one.data, two.data, one.size) == 0;
}

static bool is_str(const mr_value *value, const char *text, size_t size) {
    return value_view_kind(value) == MR_KIND_STR && value_size(value->word[2]) == size &&
           memcmp(value_payload(value_view_doc(value), value->word[2]).data, text, size) == 0;
}

mr_status mr_value_field(const mr_value *map, const char *key, mr_value *out) {
    if (value_view_kind(map) != MR_KIND_MAP) return not_a(map, "a map");
    const size_t size = strlen(key);
    mr_iter iter = mr_value_iter(map);
    for (mr_value name, value; mr_iter_next(&iter, &name) && mr_iter_next(&iter, &value);) {
        if (!is_str(&name, key, size)) continue;
        *out = value;
        return MR_OK;
    }
    return error_set(MR_NOT_FOUND, "the map of %zu pairs has no key '%.64s'", mr_value_count(map), key);
}

void mr_value_release(mr_value *value) {
    value_doc *doc = (value_doc *)(uintptr_t)value->word[0];
    const bool is_root = value_view_is_root(value);
    *value = nil;
    if (is_root && doc->release != NULL) doc->release(doc);
}
