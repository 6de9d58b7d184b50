/* metadata_guard.c — see metadata_guard.h. */
#include "kv/control/metadata_guard.h"

#include <string.h>

#include "base/error.h"
#include "cluster/membership.h"
#include "kv/control/dataset_spec.h"

static bool is(span key, const char *name) { return key.size == strlen(name) && memcmp(key.data, name, key.size) == 0; }

static bool begins(span key, const char *name) {
    return key.size >= strlen(name) && memcmp(key.data, name, strlen(name)) == 0;
}

static mr_status check_data(span value) {
    dataset_spec spec = {0};
    mr_status status = dataset_spec_decode(value, &spec);
    dataset_spec_fini(&spec);
    return status;
}

mr_status metadata_guard_check(span key, span value) {
    if (is(key, DATASET_SPEC_KEY)) return check_data(value);
    if (begins(key, MEMBERSHIP_INCARNATION_KEY)) return MR_OK;
    return error_set(MR_DENIED,
                     "only the scheduler writes values other than data and incarnations (key of %zu bytes, value "
                     "of %zu)",
                     key.size, value.size);
}
