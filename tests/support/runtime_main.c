/* runtime_main.c — see runtime_main.h. */
#include "tests/support/runtime_main.h"

mr_context *mr;
static mr_options wanted = MR_INIT(mr_options);

int runtime_main_serve(void) { return mr_init(NULL, &mr) != MR_OK; }

void runtime_main_want(const mr_options *options) { wanted = *options; }

int runtime_main_open(void **state) { return mr_init(&wanted, &mr) == MR_OK ? 0 : 1; }

int runtime_main_close(void **state) {
    mr_shutdown(mr);
    return 0;
}
