/* value_token.h — header of one item of an encoded value.
 *
 * Reading a token accesses its header only, and nothing at or after `end`. The content of a str, a tensor or a custom
 * object is checked by value_check. */
#pragma once
#include <stdint.h>

#include "net/value.h"

enum { VALUE_PATH_LEVELS = 6, VALUE_PATH_KEY = 32 }; /* limits of an error text: containers, bytes of a key */

typedef struct value_token {
    uint32_t kind; /* mr_kind */
    uint32_t ext;  /* value_ext */
    uint32_t next; /* offset of the next item; of lists and maps: their first item */
    uint64_t word; /* bool, int: the number; float: its bits; all others: two offsets or numbers, see value_word */
} value_token;

/* For a str, bytes or extension: start and size of the payload; for a container: offset of the first item and number of
 * items. Both share one word, because a wide load of two separately stored parts stalls. */
static inline uint64_t value_word(uint32_t start, uint32_t size) { return start | (uint64_t)size << 32; }
static inline uint32_t value_start(uint64_t word) { return (uint32_t)word; }
static inline uint32_t value_size(uint64_t word) { return (uint32_t)(word >> 32); }

/* The payload of a str, bytes or an extension. */
static inline span value_payload(const value_doc *doc, uint64_t word) {
    return span_of(doc->bytes.data + value_start(word), value_size(word));
}

/* Returns NULL if *out is the token at `at`, else the fault. `end` is at most bytes.size. */
const char *value_token_read(span bytes, uint32_t at, uint32_t end, value_token *out);

/* Whether the item is a reference, of VALUE_REF_ITEM bytes: a faster value_token_read. */
enum { VALUE_REF_HEAD = 2, VALUE_REF_SIZE = 16, VALUE_REF_ITEM = VALUE_REF_HEAD + VALUE_REF_SIZE };
static inline bool value_is_ref(span bytes, uint32_t at, uint32_t end) {
    const uint8_t *head = bytes.data + at;
    return end >= at && end - at >= VALUE_REF_ITEM && head[0] == 0xd8 && head[1] == VALUE_EXT_REF;
}

static inline bool value_is_container(unsigned kind) {
    return kind == MR_KIND_LIST || kind == MR_KIND_TUPLE || kind == MR_KIND_MAP;
}

/* Whether the kind is allowed as the key of a map, or in a tuple that is a key. */
static inline bool value_is_key(unsigned kind) { return kind <= MR_KIND_BYTES || kind == MR_KIND_TUPLE; }

/* A view in the words of an mr_value: the document; kind, ext, whether it is the root (8 bits each) and its ordinal
 * (upper 32 bits), which is the index in doc->skips of a container that is not empty; the token's word. */
static inline mr_value value_view(const value_doc *doc, const value_token *token, uint32_t ordinal, bool root) {
    return (mr_value){
        {(uintptr_t)doc, token->kind | token->ext << 8 | (uint32_t)root << 16 | (uint64_t)ordinal << 32, token->word}};
}

static inline const value_doc *value_view_doc(const mr_value *value) {
    return (const value_doc *)(uintptr_t)value->word[0];
}
static inline mr_kind value_view_kind(const mr_value *value) { return (mr_kind)(value->word[1] & 0xff); }
static inline bool value_view_is_root(const mr_value *value) { return (value->word[1] >> 16 & 0xff) != 0; }
static inline uint32_t value_view_ordinal(const mr_value *value) { return (uint32_t)(value->word[1] >> 32); }

/* The token of a view; `next` is not set. */
static inline value_token value_view_token(const mr_value *value) {
    return (value_token){.kind = value->word[1] & 0xff, .ext = value->word[1] >> 8 & 0xff, .word = value->word[2]};
}
