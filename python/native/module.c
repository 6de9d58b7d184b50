/* module.c — miniray._core: the extension as a module. */
#include "python/native/actor.h"
#include "python/native/body.h"
#include "python/native/context.h"
#include "python/native/decode.h"
#include "python/native/encode.h"
#include "python/native/function.h"
#include "python/native/inbox.h"
#include "python/native/interrupt.h"
#include "python/native/look.h"
#include "python/native/memory.h"
#include "python/native/model.h"
#include "python/native/placement.h"
#include "python/native/ps.h"
#include "python/native/ps_office.h"
#include "python/native/ps_start.h"
#include "python/native/ref.h"
#include "python/native/reply.h"
#include "python/native/share.h"
#include "python/native/stream.h"
#include "python/native/tensor.h"
#include "python/native/train.h"
#include "python/native/wait.h"

#define FAST(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef functions[] = {
    {"get", FAST(wait_get), METH_FASTCALL | METH_KEYWORDS,
     "get(object_refs, *, timeout=None)\n--\n\nThe value of an ObjectRef, or a list of the values of a list; waits for "
     "it."},
    {"wait", FAST(wait_wait), METH_FASTCALL | METH_KEYWORDS,
     "wait(object_refs, *, num_returns=1, timeout=None, fetch_local=True)\n--\n\n"
     "Waits until num_returns objects are ready: ([ready], [not ready])."},
    {"put", FAST(context_put), METH_FASTCALL | METH_KEYWORDS,
     "put(value)\n--\n\nStores a value; returns its ObjectRef, which many tasks may use."},
    {"init", context_init, METH_VARARGS, NULL},
    {"shutdown", context_shutdown, METH_NOARGS, NULL},
    {"is_initialized", context_is_initialized, METH_NOARGS, "Whether init() has been called and shutdown() has not."},
    {"address", context_address, METH_NOARGS, NULL},
    {"forked", context_forked, METH_NOARGS, NULL},
    {"serve", context_serve, METH_NOARGS, NULL},
    {"cancel", context_cancel, METH_VARARGS, NULL},
    {"interrupt_is_due", interrupt_is_due, METH_NOARGS, NULL},
    {"serve_calls", context_serve_calls, METH_O, NULL},
    {"make_way", context_make_way, METH_NOARGS, NULL},
    {"wake_server", context_wake_server, METH_NOARGS, NULL},
    {"kill", context_kill, METH_VARARGS, NULL},
    {"get_actor", context_get_actor, METH_VARARGS, NULL},
    {"current_actor", context_current_actor, METH_NOARGS, "The handle of the actor that this process is, or None."},
    {"look", look_ask, METH_VARARGS, NULL},
    {"trace", look_trace, METH_VARARGS, NULL},
    {"gpu_ids", look_gpu_ids, METH_NOARGS, NULL},
    {"facts", look_facts, METH_O, NULL},
    {"calls", context_calls, METH_NOARGS, NULL},
    {"call", context_call, METH_NOARGS, NULL},
    {"is_cancelled", context_is_cancelled, METH_NOARGS, NULL},
    {"placement_create", placement_create, METH_VARARGS, NULL},
    {"placement_wait", placement_wait, METH_VARARGS, NULL},
    {"placement_remove", placement_remove, METH_O, NULL},
    {"placement_capture", placement_capture, METH_O, NULL},
    {"placement_captured", placement_captured, METH_NOARGS, NULL},
    {"stream_next", stream_next, METH_VARARGS, NULL},
    {"stream_peek", stream_peek, METH_O, NULL},
    {"stream_ended", stream_ended, METH_O, NULL},
    {"set_local", context_set_local, METH_O, NULL},
    {"local_actor", context_local_actor, METH_VARARGS, NULL},
    {"create_actor", context_create_actor, METH_VARARGS, NULL},
    {"shard_indices", train_shard_indices, METH_VARARGS, NULL},
    {"model_server", model_server, METH_VARARGS, NULL},
    {"have_methods", model_have_methods, METH_VARARGS, NULL},
    {"model_sync", model_sync, METH_VARARGS, NULL},
    {"model_pull", model_pull, METH_O, NULL},
    {"give_arrays", model_give_arrays, METH_NOARGS, NULL},
    {"share", share_open, METH_O, NULL},
    {"weights", tensor_weights_new, METH_VARARGS, NULL},
    {"are_usual", tensor_are_usual, METH_O, NULL},
    {"are_own", tensor_are_own, METH_O, NULL},
    {"ps_start", ps_start, METH_VARARGS, NULL},
    {"ps_connect", ps_connect, METH_VARARGS, NULL},
    {"ps_chart", ps_chart, METH_VARARGS, NULL},
    {"ps_checkpoint", ps_checkpoint, METH_VARARGS, NULL},
    {"ps_board", ps_board, METH_VARARGS, NULL},
    {"ps_overview", ps_overview, METH_VARARGS, NULL},
    {"ps_answer", ps_answer, METH_VARARGS, NULL},
    {NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "miniray._core", .m_doc = "Miniray's runtime, for Python.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void) {
    PyTypeObject *types[] = {&ref_type,       &actor_type,         &actor_method_type,  &function_type,
                             &inbox_type,     &train_trainer_type, &train_logbook_type, &memory_type,
                             &reply_type,     &memory_holder_type, &share_type,         &ps_connection_type,
                             &ps_table_type,  &ps_ticket_type,     &ps_mark_type,       &tensor_weights_type,
                             &ps_memory_type, &ps_deployment_type};
    static const char *const names[] = {"ObjectRef", "ActorHandle", "ActorMethod", "RemoteFunction",
                                        "Inbox",     "Trainer",     "Logbook"};
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) != 0) goto drop;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (PyModule_AddObjectRef(module, names[i], (PyObject *)types[i]) != 0) goto drop;
    if (PyModule_AddStringConstant(module, "version", mr_version()) != 0) goto drop;
    PyObject *hyperparameters = ps_hyperparameters();
    int added = PyModule_AddObjectRef(module, "ps_hyperparameters", hyperparameters);
    Py_XDECREF(hyperparameters);
    if (added != 0) goto drop;
    body_register();
    return module;

drop:
    Py_DECREF(module);
    return NULL;
}
