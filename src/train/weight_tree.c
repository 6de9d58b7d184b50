/* weight_tree.c — see weight_tree.h. Received values have been checked and are at most VALUE_DEPTH_MAX deep, so
 * recursion is bounded. */
#include "train/weight_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/value.h"
#include "train/tensor_shape.h"

enum { PATH_TEXT_MAX = 192 };

static bool is_row(const mr_value *value) {
    mr_kind kind = mr_value_kind(value);
    return kind == MR_KIND_LIST || kind == MR_KIND_TUPLE;
}

static bool is_map(const mr_value *value) { return mr_value_kind(value) == MR_KIND_MAP; }

/* ---- Position in the tree, as text for errors. */

typedef struct step { /* linked list on the stack, from the leaf to the root */
    const struct step *before;
    const mr_value *key; /* in a map; NULL: a list or tuple */
    size_t index;        /* in a list or tuple */
} step;

static size_t put_text(char out[PATH_TEXT_MAX], size_t used, const char *format, int size, const char *text) {
    int more = snprintf(out + used, PATH_TEXT_MAX - used, format, size, text);
    return more < 0 || used + (size_t)more >= PATH_TEXT_MAX ? PATH_TEXT_MAX - 1 : used + (size_t)more;
}

static size_t put_step(const step *at, char out[PATH_TEXT_MAX]) {
    if (at == NULL) return 0;
    size_t used = put_step(at->before, out);
    char number[24];
    int64_t integer;
    mr_span text;
    if (at->key == NULL) {
        snprintf(number, sizeof number, "%zu", at->index);
        return put_text(out, used, used == 0 ? "%.*s" : "[%.*s]", 23, number);
    }
    if (mr_value_kind(at->key) == MR_KIND_STR && mr_value_str(at->key, &text) == MR_OK)
        return put_text(out, used, used == 0 ? "%.*s" : ".%.*s", (int)(text.size > 100 ? 100 : text.size), text.data);
    if (mr_value_kind(at->key) == MR_KIND_INT && mr_value_int(at->key, &integer) == MR_OK)
        snprintf(number, sizeof number, "%" PRId64, integer);
    else
        snprintf(number, sizeof number, "(%s)", mr_kind_name(mr_value_kind(at->key)));
    return put_text(out, used, "[%.*s]", 23, number);
}

static const char *path_text(const step *at, char out[PATH_TEXT_MAX]) {
    out[0] = '\0';
    put_step(at, out);
    return out;
}

static const char *noun(const step *at) { return at == NULL ? "the model" : "tensor "; } /* before path_text */

/* ---- Walk of two trees. */

typedef struct walk {
    const char *whose;
    size_t number;
    const model_access *pattern_access, *access; /* as in weight_tree_source */
    bool alone;                                  /* both trees are the pattern */
    weight_tree *found;
} walk;

static mr_status misfit(const walk *walk, const step *at, const mr_value *pattern, const mr_value *value) {
    char path[PATH_TEXT_MAX];
    return error_set(MR_INVALID, "%s%s of %s %zu is a %s, that of worker 0 a %s", noun(at), path_text(at, path),
                     walk->whose, walk->number, mr_kind_name(mr_value_kind(value)),
                     mr_kind_name(mr_value_kind(pattern)));
}

static mr_status add_tensor(weight_tree *found, const mr_tensor *tensor) {
    MR_TRY(alloc_try_grow(&found->tensors, &found->room, found->count + 1, sizeof *found->tensors));
    found->tensors[found->count++] = *tensor;
    return MR_OK;
}

static bool same_text(const mr_value *a, const mr_value *b) {
    bool is_str = mr_value_kind(a) == MR_KIND_STR;
    mr_span one, two;
    return (is_str ? mr_value_str(a, &one) : mr_value_bytes(a, &one)) == MR_OK &&
           (is_str ? mr_value_str(b, &two) : mr_value_bytes(b, &two)) == MR_OK && one.size == two.size &&
           (one.size == 0 || memcmp(one.data, two.data, one.size) == 0);
}

static bool same_number(const mr_value *a, const mr_value *b) {
    int64_t first, second;
    double one, two;
    bool yes, no;
    switch (mr_value_kind(a)) {
    case MR_KIND_INT: return mr_value_int(a, &first) == MR_OK && mr_value_int(b, &second) == MR_OK && first == second;
    case MR_KIND_FLOAT: return mr_value_float(a, &one) == MR_OK && mr_value_float(b, &two) == MR_OK && one == two;
    default: return mr_value_bool(a, &yes) == MR_OK && mr_value_bool(b, &no) == MR_OK && yes == no;
    }
}

bool weight_tree_same_key(const mr_value *a, const mr_value *b) {
    mr_kind kind = mr_value_kind(a);
    if (kind != mr_value_kind(b)) return false;
    switch (kind) {
    case MR_KIND_STR:
    case MR_KIND_BYTES: return same_text(a, b);
    case MR_KIND_INT:
    case MR_KIND_FLOAT:
    case MR_KIND_BOOL: return same_number(a, b);
    default: return kind == MR_KIND_NIL || value_same_bytes(a, b); /* a tuple */
    }
}

/* The item of a map that has this key. It is usually `next`, as most maps have the order of the pattern. */
static bool find_key(const mr_value *map, mr_iter *next, const mr_value *key, mr_value *out) {
    mr_value found;
    if (mr_iter_next(next, &found) && mr_iter_next(next, out) && weight_tree_same_key(&found, key)) return true;
    mr_iter iter = mr_value_iter(map);
    while (mr_iter_next(&iter, &found) && mr_iter_next(&iter, out))
        if (weight_tree_same_key(&found, key)) return true;
    return false;
}

static mr_status walk_both(const walk *walk, const step *at, const mr_value *pattern, const mr_value *value);

static mr_status walk_map(const walk *walk, const step *at, const mr_value *pattern, const mr_value *value) {
    char path[PATH_TEXT_MAX];
    mr_iter iter = mr_value_iter(pattern), next = mr_value_iter(value);
    mr_value key, ours, theirs;
    while (mr_iter_next(&iter, &key) && mr_iter_next(&iter, &ours)) {
        step here = {.before = at, .key = &key};
        if (!find_key(value, &next, &key, &theirs))
            return error_set(MR_INVALID, "%s %zu has no tensor %s, which worker 0 has", walk->whose, walk->number,
                             path_text(&here, path));
        MR_TRY(walk_both(walk, &here, &ours, &theirs));
    }
    if (mr_value_count(value) == mr_value_count(pattern)) return MR_OK;
    return error_set(MR_INVALID, "%s %zu has %zu tensors%s%s, worker 0 has %zu", walk->whose, walk->number,
                     mr_value_count(value), at == NULL ? "" : " in ", path_text(at, path), mr_value_count(pattern));
}

static mr_status walk_row(const walk *walk, const step *at, const mr_value *pattern, const mr_value *value) {
    char path[PATH_TEXT_MAX];
    if (mr_value_count(value) != mr_value_count(pattern))
        return error_set(MR_INVALID, "%s %zu has %zu tensors%s%s, worker 0 has %zu", walk->whose, walk->number,
                         mr_value_count(value), at == NULL ? "" : " in ", path_text(at, path), mr_value_count(pattern));
    mr_iter iter = mr_value_iter(pattern), next = mr_value_iter(value);
    mr_value ours, theirs;
    for (size_t i = 0; mr_iter_next(&iter, &ours) && mr_iter_next(&next, &theirs); i++) {
        step here = {.before = at, .index = i};
        MR_TRY(walk_both(walk, &here, &ours, &theirs));
    }
    return MR_OK;
}

static mr_status read_tensor(const mr_value *value, const model_access *access, mr_tensor *out) {
    MR_TRY(mr_value_tensor(value, out));
    return access == NULL ? MR_OK : model_access_resolve(access, out);
}

static mr_status walk_tensor(const walk *walk, const step *at, const mr_value *pattern, const mr_value *value) {
    char path[PATH_TEXT_MAX], one[TENSOR_SHAPE_TEXT_MAX], two[TENSOR_SHAPE_TEXT_MAX];
    mr_tensor first, other;
    MR_TRY(read_tensor(value, walk->access, &other));
    if (walk->alone) return add_tensor(walk->found, &other);
    MR_TRY(read_tensor(pattern, walk->pattern_access, &first));
    if (tensor_shape_same(&first, &other)) return add_tensor(walk->found, &other);
    return error_set(MR_INVALID, "%s%s of %s %zu is %s, that of worker 0 is %s", noun(at), path_text(at, path),
                     walk->whose, walk->number, tensor_shape_text(&other, two), tensor_shape_text(&first, one));
}

static mr_status walk_leaf(const walk *walk, const step *at, const mr_value *pattern, const mr_value *value) {
    char path[PATH_TEXT_MAX];
    mr_kind kind = mr_value_kind(value);
    if (kind == MR_KIND_TENSOR) return walk_tensor(walk, at, pattern, value);
    if (kind == MR_KIND_CUSTOM)
        return error_set(MR_INVALID,
                         "the weights of %s %zu%s%s are a custom object; expected a list or a dict of tensors",
                         walk->whose, walk->number, at == NULL ? "" : " in ", path_text(at, path));
    if (at != NULL) return MR_OK;
    return error_set(MR_INVALID, "the weights of %s %zu are a %s; expected a list or a dict of tensors", walk->whose,
                     walk->number, mr_kind_name(kind));
}

static mr_status walk_both(const walk *walk, const step *at, const mr_value *pattern, const mr_value *value) {
    if (is_row(pattern) && is_row(value)) return walk_row(walk, at, pattern, value);
    if (mr_value_kind(value) == MR_KIND_CUSTOM) return walk_leaf(walk, at, pattern, value);
    if (mr_value_kind(pattern) != mr_value_kind(value)) return misfit(walk, at, pattern, value);
    return is_map(pattern) ? walk_map(walk, at, pattern, value) : walk_leaf(walk, at, pattern, value);
}

mr_status weight_tree_match(const weight_tree_source *pattern, const weight_tree_source *other, const char *whose,
                            size_t number, weight_tree *out) {
    walk walk = {.whose = whose,
                 .number = number,
                 .pattern_access = pattern->access,
                 .access = other->access,
                 .alone = pattern == other,
                 .found = out};
    *out = (weight_tree){0};
    mr_status status = walk_both(&walk, NULL, &pattern->root, &other->root);
    if (status != MR_OK) weight_tree_close(out);
    return status;
}

mr_status weight_tree_open(const weight_tree_source *pattern, weight_tree *out) {
    return weight_tree_match(pattern, pattern, "worker", 0, out);
}

bool weight_tree_repeat(const weight_tree_source *pattern, const weight_tree *first, const weight_tree_source *other,
                        weight_tree *out) {
    const model_access *from = pattern->access, *to = other->access;
    if (from == NULL || to == NULL || to->half < from->half || first->count == 0) return false;
    if (!value_same_bytes(&pattern->root, &other->root)) return false;
    *out = (weight_tree){.count = first->count, .room = first->count};
    if (alloc_try(first->count * sizeof *out->tensors, &out->tensors) != MR_OK) return false;
    for (size_t i = 0; i < first->count; i++) {
        out->tensors[i] = first->tensors[i];
        out->tensors[i].data = to->from + ((const uint8_t *)first->tensors[i].data - from->from);
    }
    return true;
}

void weight_tree_close(weight_tree *weights) {
    free(weights->tensors);
    *weights = (struct weight_tree){0};
}

/* ---- The same tree with other data. */

typedef struct growth {
    mr_arg *args; /* NULL: the first pass, which only counts */
    mr_value *values;
    size_t arg_count, value_count, tensor;
    const mr_tensor *tensors;
    void *const *places;
} growth;

static mr_arg grow(growth *growth, const mr_value *value);

static mr_arg grow_items(growth *growth, const mr_value *value) {
    size_t count = mr_value_count(value), first = growth->arg_count, at = first;
    size_t pairs = is_map(value) ? 2 * count : count;
    growth->arg_count += pairs;
    mr_iter iter = mr_value_iter(value);
    for (mr_value item; mr_iter_next(&iter, &item); at++) {
        mr_arg made = grow(growth, &item);
        if (growth->args != NULL) growth->args[at] = made;
    }
    const mr_arg *items = growth->args == NULL ? NULL : growth->args + first;
    return is_map(value)                           ? mr_map(items, count)
           : mr_value_kind(value) == MR_KIND_TUPLE ? mr_tuple(items, count)
                                                   : mr_list(items, count);
}

static mr_arg grow_tensor(growth *growth) {
    size_t index = growth->tensor++;
    mr_arg made = mr_tensor_arg(&growth->tensors[index]);
    if (made.tensor_kind == MR_NUMPY) made.tensor_kind = MR_NUMPY_WRITABLE; /* the worker trains with it */
    made.array.data = growth->places == NULL ? NULL : growth->places[index];
    return made;
}

static mr_arg grow(growth *growth, const mr_value *value) {
    if (is_map(value) || is_row(value)) return grow_items(growth, value);
    if (mr_value_kind(value) == MR_KIND_TENSOR) return grow_tensor(growth);
    size_t at = growth->value_count++;
    if (growth->values == NULL) return mr_nil();
    growth->values[at] = *value;
    return mr_value_arg(&growth->values[at]);
}

mr_status weight_tree_arg(const mr_value *pattern, const weight_tree *list, void *const *places, void **memory,
                          mr_arg *out) {
    growth counted = {.tensors = list->tensors};
    (void)grow(&counted, pattern);
    size_t args = counted.arg_count * sizeof(mr_arg);
    MR_TRY(alloc_try(args + counted.value_count * sizeof(mr_value) + 1, memory));
    growth made = {
        .args = *memory, .values = (void *)((char *)*memory + args), .tensors = list->tensors, .places = places};
    *out = grow(&made, pattern);
    return MR_OK;
}
