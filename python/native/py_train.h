/* py_train.h — part of the library for miniray.train: trainers (miniray/train.h), files, shards, the progress line.
 *
 * _core.Trainer(owner, num_workers, sync_interval, max_failures, syncs) trains through the methods of its owner:
 *
 *     create(worker)           load(worker), train(worker, epoch), alive(worker), sync(), restore(worker)
 *     poll(done) → go on?      each of these returns an ObjectRef; load and restore also None: nothing to do
 *
 * An exception of a method ends the trainer's current call, which raises it. */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_train_trainer_type, py_train_logger_type;

PyObject *py_train_shard_indices(PyObject *module, PyObject *args); /* (count, shards, shard, seed): bytes of int64 */

/* Makes a value of a dict with any content. False with an exception. */
bool py_train_value(PyObject *dict, mr_value *out);
