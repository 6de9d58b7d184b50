/* runtime_main.c — see runtime_main.h. */
#include "tests/support/runtime_main.h"

mr_context *mr;

int runtime_main_serve(void) { return mr_init(NULL, &mr) != MR_OK; }

int runtime_main_open(void **state) {
    return mr_init(&(mr_options){.num_workers = 2, .store_bytes = 64u << 20}, &mr) == MR_OK ? 0 : 1;
}

int runtime_main_close(void **state) {
    mr_shutdown(mr);
    return 0;
}
