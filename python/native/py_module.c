/* py_module.c — miniray._core: the extension as a module. */
#include "python/native/py_actor.h"
#include "python/native/py_buffer.h"
#include "python/native/py_checkpoint.h"
#include "python/native/py_context.h"
#include "python/native/py_decode.h"
#include "python/native/py_encode.h"
#include "python/native/py_execute.h"
#include "python/native/py_function.h"
#include "python/native/py_inspect.h"
#include "python/native/py_interrupt.h"
#include "python/native/py_model.h"
#include "python/native/py_model_session.h"
#include "python/native/py_nearest_name.h"
#include "python/native/py_notifier.h"
#include "python/native/py_output.h"
#include "python/native/py_placement.h"
#include "python/native/py_ps.h"
#include "python/native/py_ps_control.h"
#include "python/native/py_ps_deployment.h"
#include "python/native/py_public.h"
#include "python/native/py_ref.h"
#include "python/native/py_reply.h"
#include "python/native/py_shared_model.h"
#include "python/native/py_state.h"
#include "python/native/py_stream.h"
#include "python/native/py_torch.h"
#include "python/native/py_train.h"
#include "python/native/py_wait.h"

PY_CORE_PUBLIC(py_wait_get)

static PyMethodDef functions[] = {
    {"get", PY_CORE_FAST(py_wait_get_public), METH_FASTCALL | METH_KEYWORDS,
     "get(object_refs, *, timeout=None)\n--\n\nThe value of an ObjectRef, or a list of the values of a list; waits for "
     "it."},
    {"wait", PY_CORE_FAST(py_wait_wait), METH_FASTCALL | METH_KEYWORDS,
     "wait(object_refs, *, num_returns=1, timeout=None, fetch_local=True)\n--\n\n"
     "Waits until num_returns objects are ready: ([ready], [not ready])."},
    {"interrupt_is_due", py_interrupt_is_due, METH_NOARGS, NULL},
    {"nearest_name", py_nearest_name, METH_VARARGS, NULL},
    {"look", py_inspect_ask, METH_VARARGS, NULL},
    {"trace", py_inspect_trace, METH_VARARGS, NULL},
    {"gpu_ids", py_inspect_gpu_ids, METH_NOARGS, NULL},
    {"output_lost", py_output_lost, METH_O, NULL},
    {"facts", py_inspect_facts, METH_O, NULL},
    {"placement_create", py_placement_create, METH_VARARGS, NULL},
    {"placement_wait", py_placement_wait, METH_VARARGS, NULL},
    {"placement_remove", py_placement_remove, METH_O, NULL},
    {"placement_capture", py_placement_capture, METH_O, NULL},
    {"placement_captured", py_placement_captured, METH_NOARGS, NULL},
    {"stream_next", py_stream_next, METH_VARARGS, NULL},
    {"stream_peek", py_stream_peek, METH_O, NULL},
    {"stream_ended", py_stream_ended, METH_O, NULL},
    {"shard_indices", py_train_shard_indices, METH_VARARGS, NULL},
    {"model_server", py_model_server, METH_VARARGS, NULL},
    {"have_methods", py_model_have_methods, METH_VARARGS, NULL},
    {"model_sync", py_model_sync, METH_VARARGS, NULL},
    {"model_pull", py_model_pull, METH_O, NULL},
    {"give_arrays", py_model_give_arrays, METH_NOARGS, NULL},
    {"state_set", py_state_set, METH_O, NULL},
    {"checkpoint_save", py_checkpoint_save, METH_VARARGS, NULL},
    {"checkpoint_peek", py_checkpoint_peek, METH_VARARGS, NULL},
    {"checkpoint_read", py_checkpoint_read, METH_VARARGS, NULL},
    {"checkpoint_write", py_checkpoint_write, METH_VARARGS, NULL},
    {"checkpoint_set_aside", py_checkpoint_set_aside, METH_VARARGS, NULL},
    {"checkpoint_saver", py_checkpoint_saver, METH_VARARGS, NULL},
    {"checkpoint_offer", py_checkpoint_offer, METH_VARARGS, NULL},
    {"state_get", py_state_get, METH_NOARGS, NULL},
    {"call_number", py_state_call_number, METH_NOARGS, NULL},
    {"share", py_shared_model_open, METH_O, NULL},
    {"weights", py_torch_weights_new, METH_VARARGS, NULL},
    {"are_usual", py_torch_are_usual, METH_O, NULL},
    {"are_own", py_torch_are_own, METH_O, NULL},
    {"ps_start", py_ps_deployment_start, METH_VARARGS, NULL},
    {"ps_connect", py_ps_connect, METH_VARARGS, NULL},
    {"ps_chart", py_ps_map, METH_VARARGS, NULL},
    {"ps_checkpoint", py_ps_checkpoint, METH_VARARGS, NULL},
    {"ps_board", py_ps_processes, METH_VARARGS, NULL},
    {"ps_overview", py_ps_overview, METH_VARARGS, NULL},
    {"ps_answer", py_ps_answer, METH_VARARGS, NULL},
    {NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "miniray._core", .m_doc = "Miniray's runtime, for Python.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void) {
    PyTypeObject *types[] = {&py_ref_type,           &py_actor_type,         &py_actor_method_type,
                             &py_function_type,      &py_notifier_type,      &py_train_trainer_type,
                             &py_train_logger_type,  &py_buffer_type,        &py_reply_type,
                             &py_buffer_holder_type, &py_shared_model_type,  &py_ps_connection_type,
                             &py_ps_table_type,      &py_ps_ticket_type,     &py_ps_mark_type,
                             &py_model_session_type, &py_torch_weights_type, &py_ps_memory_type,
                             &py_ps_deployment_type, &py_public_type,        &py_public_iterator_type};
    static const char *const names[] = {"ObjectRef", "ActorHandle", "ActorMethod", "RemoteFunction",
                                        "Inbox",     "Trainer",     "Logbook"};
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    if (PyModule_AddFunctions(module, py_context_functions) != 0) goto drop;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) != 0) goto drop;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (PyModule_AddObjectRef(module, names[i], (PyObject *)types[i]) != 0) goto drop;
    if (PyModule_AddStringConstant(module, "version", mr_version()) != 0) goto drop;
    if (PyModule_AddObjectRef(module, "PublicFunction", (PyObject *)&py_public_type) != 0) goto drop;
    PyObject *hyperparameters = py_ps_hyperparameters();
    int added = PyModule_AddObjectRef(module, "ps_hyperparameters", hyperparameters);
    Py_XDECREF(hyperparameters);
    if (added != 0) goto drop;
    py_execute_register();
    return module;

drop:
    Py_DECREF(module);
    return NULL;
}
