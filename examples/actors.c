/* actors.c — a bank account as an actor: a process of its own that keeps its state and is found by name. */
#include <miniray/runtime.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct account {
    int64_t balance;
} account;

MR_CREATE(Account) {
    account *self = calloc(1, sizeof *self);
    if (self != NULL) MR_TRY(mr_arg_int(call, 0, &self->balance));
    return mr_set_self(call, self, free);
}

MR_METHOD(Account, pay) {
    account *self = mr_self(call);
    int64_t amount;
    MR_TRY(mr_arg_int(call, 0, &amount));
    if (amount > self->balance) return mr_fail(call, "only %lld are left", (long long)self->balance);
    self->balance -= amount;
    return mr_return(call, mr_int(self->balance));
}

/* A task, in another process, that finds the account by its name. */
MR_TASK(shop) {
    mr_context *mr = mr_call_context(call);
    mr_actor account;
    mr_ref ref;
    mr_value left;
    MR_TRY(mr_actor_find(mr, "savings", NULL, &account));
    MR_TRY(mr_call_actor(mr, account, "pay", &ref, mr_int(30)));
    MR_TRY(mr_get(mr, ref, MR_FOREVER, &left));
    mr_status status = mr_return(call, mr_value_arg(&left));
    mr_value_release(&left);
    mr_release(mr, ref);
    return status;
}

static mr_status run(mr_context *mr) {
    mr_actor account;
    MR_TRY(mr_actor_create(mr, "Account", &MR_OPTIONS(mr_actor_options, .name = "savings"), MR_ARGS(mr_int(100)),
                           &account));
    for (int i = 0; i < 4; i++) {
        mr_ref ref;
        mr_value value;
        int64_t left;
        MR_TRY(mr_call_task(mr, "shop", &ref));
        mr_status status = mr_get(mr, ref, MR_FOREVER, &value);
        if (status == MR_OK && (status = mr_value_int(&value, &left)) == MR_OK) {
            printf("%lld left\n", (long long)left);
            mr_value_release(&value);
        } else {
            printf("%s\n", mr_last_error()); /* the error of the account, as the task `shop` returned it */
        }
        mr_release(mr, ref);
    }
    return MR_OK;
}

int main(void) {
    mr_context *mr;
    if (mr_init(NULL, &mr) != MR_OK) return fprintf(stderr, "%s\n", mr_last_error()), 1;
    mr_status status = run(mr);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    mr_shutdown(mr);
    return status != MR_OK;
}
