/* call.h — one run of a body: what mr_call is inside. */
#pragma once
#include "base/list.h"
#include "miniray/runtime.h"
#include "net/call.h"
#include "net/value.h"
#include "runtime/cargo.h"
#include "runtime/failure.h"

typedef struct call_self { /* an actor's state */
    void *state;
    void (*destroy)(void *state);
} call_self;

struct mr_call {
    list place; /* in the worker's queue, or among those that run */
    mr_context *mr;
    call_token token;
    uint32_t method;
    mr_actor actor;
    char name[256]; /* of the task or method */
    bundle *args;
    bundle_entry *entries; /* one per argument; owned; NULL: all are in the bundle */
    value_doc *docs;       /* one per argument; owned */
    mr_value *values;
    bundle *result;  /* NULL: nil */
    failure *failed; /* or why it has none; owned */
    char *message;   /* what mr_fail said; owned */
    void *detail;    /* what mr_fail_with gave besides; owned */
    size_t detail_size;
    call_self *self;
    bool cancelled;
};

/* Takes and shows what the arguments name (cargo.h), and hides it again; with the context's lock held. May wait. */
MR_MUST mr_status call_show_args(mr_call *call, shelf *shelf);
void call_hide_args(mr_call *call);
/* Opens every argument. MR_CORRUPT, MR_NOMEM. */
MR_MUST mr_status call_open_args(mr_call *call);
void call_fini(mr_call *call);
