/* model_checkpoint.h — checkpoint of a model server (mr_model_checkpoint_*): a folder with the model in a safetensors
 * file, and a manifest.
 *
 *   manifest               magic "MSC1"; place, size and XXH3 of the file, version, number of syncs, u64 each; momentum
 *                          and trim, f64; strategy text; XXH3 of all before
 *   model-PLACE.safetensors
 *     tensor per leaf      named by its path: "0", "conv.weight", "G.conv.weight"; ".tensor.INDEX" where the path is
 *                          not unique, too long, or no such text
 *     .model/tree          U8: the model as a value (net/value.h), with the empty tensor {0, index} for each tensor
 *     .server/weights      F64: weights of workers; NaN: not set
 *     .strategy/state      U8: the state of a custom strategy
 *     texts                format "miniray model 1", strategy, version
 *
 * A checkpoint is written into the place that the manifest does not name, and is complete when the manifest names it: a
 * process or a machine that ends at any instant leaves the checkpoint before it. A reader compares size and checksum.
 * Functions block. Tested by tests/model_save_test.c. */
#pragma once
#include "base/bytes.h"
#include "base/safetensors.h"
#include "miniray/model.h"
#include "train/weight_tree.h"

#define MODEL_CHECKPOINT_MAGIC "MSC1"
#define MODEL_CHECKPOINT_NAME  "miniray model "

typedef struct model_checkpoint_file { /* a checkpoint that was read; owned */
    mr_model_checkpoint facts;         /* borrows from the file */
    mr_arg model;                      /* borrows from the file; nil: no model yet */
    buffer file;
    safetensors list;
    double *weights;
    void *tree_memory, *arg_memory;
    struct value_doc *tree;
    weight_tree tensors;
} model_checkpoint_file;

bool model_checkpoint_exists(const char *folder); /* whether the folder has a manifest */
/* MR_NOT_FOUND: no manifest. MR_CORRUPT: another format, a damaged manifest or file. */
MR_MUST mr_status model_checkpoint_open(const char *folder, model_checkpoint_file *out);
/* Reads the model's file, which is in file->file; the other fields but facts are zero. MR_CORRUPT; then, too, the file
 * is to be closed. */
MR_MUST mr_status model_checkpoint_decode(model_checkpoint_file *file);
void model_checkpoint_close(model_checkpoint_file *file);
