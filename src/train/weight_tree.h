/* weight_tree.h — weight trees of workers as lists of tensors in the same order.
 *
 * get_weights returns a tree: lists, tuples and maps (a state_dict, two networks of a GAN) whose leaves are tensors.
 * The first worker's tree is the pattern; the order of its leaves is the order of the lists. A leaf of another worker
 * is found by the same path (indices and keys), so that its maps may have another order. Leaves that are not tensors (a
 * number, a text) are those of the first worker.
 *
 *     weight_tree_open(&first, &list)                  pattern and list are the same tree
 *     weight_tree_match(&first, &other, 2, &list)      "tensor conv.weight of worker 2 is …, that of worker 0 is …"
 *     weight_tree_arg(&first, &list, places, &memory, &arg)  the pattern with other data, as an argument
 *
 * Values, and tensors read from them, are borrowed. */
#pragma once
#include "miniray/value.h"
#include "train/shared_model_access.h"

typedef struct weight_tree_source { /* weights that a worker sent */
    mr_value root;
    /* of a shared model, whose tensors are stand-ins in the value; borrowed; NULL: the value has the tensors */
    const model_access *access;
} weight_tree_source;

typedef struct weight_tree { /* the tensors of one worker */
    mr_tensor *tensors;      /* owned; their data is borrowed */
    size_t count, room;
} weight_tree;

/* MR_INVALID: the value is not a tree of tensors (a text, or a pickle); the error says why. MR_NOMEM. */
MR_MUST mr_status weight_tree_open(const weight_tree_source *pattern, weight_tree *out);
/* `whose` and `number` name the source, for the text of an error. */
MR_MUST mr_status weight_tree_match(const weight_tree_source *pattern, const weight_tree_source *other,
                                    const char *whose, size_t number, weight_tree *out);
/* Fast path of weight_tree_match for shared models whose trees have equal bytes: the other's tensors are those of
 * `first`, the pattern's list, at the same offsets in the other's memory. False: use weight_tree_match. */
bool weight_tree_repeat(const weight_tree_source *pattern, const weight_tree *first, const weight_tree_source *other,
                        weight_tree *out);
void weight_tree_close(weight_tree *weights);

bool weight_tree_same_key(const mr_value *a, const mr_value *b); /* whether two keys of maps are equal */

/* The pattern with the tensors of `list`, whose data is at these places (NULL: no data yet). *out points into *memory,
 * which the caller frees after its last use, and to `list`. MR_NOMEM. */
MR_MUST mr_status weight_tree_arg(const mr_value *pattern, const weight_tree *list, void *const *places, void **memory,
                                  mr_arg *out);
