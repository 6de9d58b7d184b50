/* value_check.c — validation of an encoded value, once, before it is read.
 *
 * One pass over the items, with a stack of the open containers. The stack is a fixed array, so a message determines
 * neither the call depth nor the memory: the index grows only with containers that are present.
 *
 * Invariants  at <= end <= size of the value, where `end` is the end of the innermost open tuple, or of the value;
 *             skips[i] is complete when container i is closed, and containers inside it have higher numbers;
 *             every open level has left > 0. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/value_extension.h"

typedef struct level {
    uint8_t kind;
    bool in_key;          /* this container is a map's key, or inside one */
    uint32_t count, left; /* items in total, remaining items; of a map: keys and values */
    uint32_t end;         /* of a tuple: its required end; of others: the enclosing end */
    uint32_t ordinal;     /* index in doc->skips */
    uint32_t key_at;      /* of a map: offset of the last key */
} level;

typedef struct check {
    value_doc *doc;
    uint32_t at;
    uint32_t buffers_named;
    uint32_t depth;
    level levels[VALUE_DEPTH_MAX];
} check;

static level *innermost(check *c) { return c->depth == 0 ? NULL : &c->levels[c->depth - 1]; }

static uint32_t end_of(check *c) { return c->depth == 0 ? (uint32_t)c->doc->bytes.size : innermost(c)->end; }

/* Keys and values of a map alternate; a map has an even number of items. */
static bool at_key(const level *level) { return level->kind == MR_KIND_MAP && level->left % 2 == 0; }

/* ---- Place of a fault. */

enum { PATH_TEXT = 256 };

static int describe_key(check *c, uint32_t at, char *out, size_t size) {
    value_token key;
    if (value_token_read(c->doc->bytes, at, (uint32_t)c->doc->bytes.size, &key) != NULL) return 0;
    if (key.kind == MR_KIND_INT) return snprintf(out, size, "map key %lld: ", (long long)key.word);
    if (key.kind != MR_KIND_STR) return snprintf(out, size, "map value of a %s: ", mr_kind_name((mr_kind)key.kind));
    int length = value_size(key.word) < VALUE_PATH_KEY ? (int)value_size(key.word) : VALUE_PATH_KEY;
    return snprintf(out, size, "map key '%.*s': ", length, (const char *)c->doc->bytes.data + value_start(key.word));
}

static int describe_level(check *c, const level *level, char *out, size_t size) {
    uint32_t index = level->count - level->left;
    if (level->kind != MR_KIND_MAP)
        return snprintf(out, size, "%s item %u: ", mr_kind_name((mr_kind)level->kind), index);
    if (at_key(level)) return snprintf(out, size, "key number %u of a map: ", index / 2);
    return describe_key(c, level->key_at, out, size);
}

__attribute__((cold)) static mr_status refuse(check *c, mr_status status, const char *what) {
    char path[PATH_TEXT] = "";
    size_t length = 0;
    uint32_t from = c->depth > VALUE_PATH_LEVELS ? c->depth - VALUE_PATH_LEVELS : 0;
    if (from != 0) length = (size_t)snprintf(path, sizeof path, "…: ");
    for (uint32_t i = from; i < c->depth && length < sizeof path; i++) {
        int more = describe_level(c, &c->levels[i], path + length, sizeof path - length);
        length += more > 0 ? (size_t)more : 0;
    }
    return error_set(status, "%s%s, at byte %u of %zu", path, what, c->at, c->doc->bytes.size);
}

/* ---- The pass. */

static mr_status add_skip(check *c, uint32_t *ordinal) {
    value_doc *doc = c->doc;
    if (doc->skip_count == doc->skip_capacity) {
        void *skips = doc->skips == doc->few ? NULL : doc->skips;
        size_t capacity = (size_t)doc->skip_capacity * 2;
        MR_TRY(alloc_try_resize(&skips, capacity * sizeof *doc->skips));
        if (doc->skips == doc->few) memcpy(skips, doc->few, sizeof doc->few);
        doc->skips = skips;
        doc->skip_capacity = (uint32_t)capacity;
    }
    *ordinal = doc->skip_count++;
    return MR_OK;
}

static mr_status open_level(check *c, const value_token *token, bool in_key) {
    uint32_t ordinal;
    MR_TRY(add_skip(c, &ordinal));
    uint32_t count = token->kind == MR_KIND_MAP ? 2 * value_size(token->word) : value_size(token->word);
    uint32_t end = token->kind == MR_KIND_TUPLE ? token->next : end_of(c);
    c->levels[c->depth++] =
        (level){.kind = token->kind, .in_key = in_key, .count = count, .left = count, .end = end, .ordinal = ordinal};
    c->at = value_start(token->word);
    return MR_OK;
}

static const char extra_bytes[] = "a tuple with bytes after its last item";

/* Called when an item is complete: closes the containers of which it was the last item. */
static mr_status close_levels(check *c) {
    for (level *inner = innermost(c); inner != NULL && --inner->left == 0; inner = innermost(c)) {
        if (inner->kind == MR_KIND_TUPLE && c->at != inner->end) {
            inner->left = 1; /* so that the text names the last item */
            return refuse(c, MR_CORRUPT, extra_bytes);
        }
        c->doc->skips[inner->ordinal] = (value_skip){.end = c->at, .next = c->doc->skip_count};
        c->depth--;
    }
    return MR_OK;
}

/* Every buffer is referenced once, in order, so none is unused and none used twice. */
static mr_status name_buffers(check *c, value_buffers named) {
    if (named.count == 0) return MR_OK;
    if (named.first != c->buffers_named) return refuse(c, MR_CORRUPT, "a buffer index out of order");
    c->buffers_named += named.count;
    return MR_OK;
}

static mr_status check_item(check *c, const value_token *token) {
    value_buffers named = {0, 0};
    if (token->kind >= MR_KIND_STR) {
        const char *wrong = value_extension_check(c->doc, token, &named);
        if (wrong != NULL) return refuse(c, MR_CORRUPT, wrong);
        MR_TRY(name_buffers(c, named));
    }
    c->at = token->next;
    return MR_OK;
}

/* Reads the item at c->at: afterwards it is complete (*opened is false) or its first item is next. */
static mr_status check_next(check *c, value_token *token, bool *opened) {
    const char *wrong = value_token_read(c->doc->bytes, c->at, end_of(c), token);
    if (wrong != NULL) return refuse(c, MR_CORRUPT, wrong);
    level *outer = innermost(c);
    bool in_key = outer != NULL && (outer->in_key || at_key(outer));
    if (in_key) {
        if (!value_is_key(token->kind) || token->ext == VALUE_EXT_BYTES_OUT)
            return refuse(c, MR_CORRUPT, "a map key that is not nil, bool, int, float, str, bytes or a tuple of these");
        if (at_key(outer)) outer->key_at = c->at;
    }
    const bool is_container = value_is_container(token->kind);
    _Static_assert(VALUE_DEPTH_MAX == 64, "the text below says so");
    if (is_container && c->depth == VALUE_DEPTH_MAX) return refuse(c, MR_TOO_LARGE, "nested more than 64 levels deep");
    *opened = is_container && value_size(token->word) != 0;
    if (*opened) return open_level(c, token, in_key);
    if (token->kind == MR_KIND_TUPLE && value_start(token->word) != token->next)
        return refuse(c, MR_CORRUPT, extra_bytes);
    return check_item(c, token);
}

/* Fast path for lists of many references: skips all references that are followed by another item. */
static void skip_refs(check *c) {
    level *list = innermost(c);
    if (list->kind != MR_KIND_LIST || list->in_key) return;
    while (list->left > 1 && value_is_ref(c->doc->bytes, c->at, list->end)) {
        c->at += VALUE_REF_ITEM;
        list->left--;
    }
}

mr_status value_check(value_doc *doc, mr_value *root) {
    check c;
    c.doc = doc;
    c.at = c.depth = c.buffers_named = 0;
    value_token first, token;
    bool opened;
    MR_TRY(check_next(&c, &first, &opened));
    while (c.depth != 0) {
        if (!opened) MR_TRY(close_levels(&c));
        if (c.depth == 0) break;
        skip_refs(&c);
        MR_TRY(check_next(&c, &token, &opened));
    }
    if (c.at != doc->bytes.size) return refuse(&c, MR_CORRUPT, "more bytes follow the value's end");
    if (c.buffers_named != doc->buffer_count) return refuse(&c, MR_CORRUPT, "a buffer that no item refers to");
    *root = value_view(doc, &first, 0, true);
    return MR_OK;
}
