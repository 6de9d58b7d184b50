/* weight_tree.h — weight trees of workers as lists of tensors side by side.
 *
 * get_weights returns a tree: lists, tuples and maps (a state_dict, two networks of a GAN) whose leaves are tensors.
 * The first worker's tree is the pattern, and its leaves in their order are numbered; another worker's leaves are found
 * by the same way through its own tree, so that a map may have another order. Leaves that are no tensors (a number, a
 * text) are the first worker's.
 *
 *     weight_tree_open(&first, &list)                  pattern and list are the same tree
 *     weight_tree_match(&first, &other, 2, &list)      "tensor conv.weight of worker 2 is …, that of worker 0 is …"
 *     weight_tree_arg(&first, &list, places, &memory, &arg)  the pattern again, with other data: what goes out
 *
 * Values and the tensors read out of them are borrowed. */
#pragma once
#include "miniray/value.h"
#include "train/shared_model_access.h"

typedef struct weight_tree_source { /* weights that a worker sent */
    mr_value root;
    /* borrowed: of a shared model, whose tensors are stand-ins here; NULL: the tensors are in the value */
    const model_access *access;
} weight_tree_source;

typedef struct weight_tree { /* the leaves of one worker that are tensors */
    mr_tensor *tensors;      /* owned; their data is borrowed */
    size_t count, room;
} weight_tree;

/* MR_INVALID: the value is no tree of tensors (a text, or a pickle); the error says why. MR_NOMEM. */
MR_MUST mr_status weight_tree_open(const weight_tree_source *pattern, weight_tree *out);
/* `whose` and `number` name the source, for the text of an error. */
MR_MUST mr_status weight_tree_match(const weight_tree_source *pattern, const weight_tree_source *other,
                                    const char *whose, size_t number, weight_tree *out);
/* The quick way of weight_tree_match for shared models with equal tree bytes: the other's tensors are those of the
 * pattern, `first`, in the other's memory. False: the trees have to be matched. */
bool weight_tree_repeat(const weight_tree_source *pattern, const weight_tree *first, const weight_tree_source *other,
                        weight_tree *out);
void weight_tree_close(weight_tree *weights);

bool weight_tree_same_key(const mr_value *a, const mr_value *b); /* of two maps */

/* The pattern with the list's tensors in it, whose data is at these places (NULL: nowhere yet). *memory is the
 * caller's to free, and holds what *out points to; the list has to stay as long. MR_NOMEM. */
MR_MUST mr_status weight_tree_arg(const mr_value *pattern, const weight_tree *list, void *const *places, void **memory,
                                  mr_arg *out);
