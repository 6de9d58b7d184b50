/* model_create.c — creation of model servers: strategy, checkpoint and options of the actor (miniray/model.h). Strategy
 * and checkpoint are compared here, so that the caller gets the error. Tested by tests/model_save_test.c. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/option_struct.h"
#include "miniray/model.h"
#include "train/model_checkpoint.h"
#include "train/model_path.h"
#include "train/model_server.h"

enum { EVERY_S = 30 };

mr_status model_path_resolve(const char *path, char out[PATH_MAX]) {
    char here[PATH_MAX] = "";
    if (path == NULL || path[0] == '\0')
        return error_set(MR_INVALID, "the path of the checkpoint is %s; pass the path of a folder",
                         path == NULL ? "NULL" : "\"\"");
    if (path[0] != '/' && getcwd(here, sizeof here) == NULL)
        return error_errno("cannot find the folder that '%.200s' is relative to", path);
    int length = snprintf(out, PATH_MAX, "%s%s%s", here, here[0] == '\0' ? "" : "/", path);
    if (length < PATH_MAX) return MR_OK;
    return error_set(MR_TOO_LARGE, "the path of a checkpoint has %d bytes; the limit is %d", length, PATH_MAX - 1);
}

/* ---- Strategy and checkpoint. */

typedef struct beginning { /* of a server; "": no path */
    char restore[PATH_MAX], folder[PATH_MAX];
    double every_s;
    bool sets_aside;
    mr_model_checkpoint facts; /* of `restore` */
} beginning;

static mr_status contradicts(const beginning *from, const char *what, double given, double saved) {
    return error_set(MR_INVALID, "%s is %g, but the checkpoint %s was made with %g: leave it out, or give that value",
                     what, given, from->restore, saved);
}

/* The value of an option, as in the strategy: 0 is the default, negative is 0. */
static double value_of(double option, double usual) { return option == 0 ? usual : option < 0 ? 0 : option; }
static double option_of(double value) { return value == 0 ? -1 : value; }

/* Completes the strategy with what the checkpoint says. */
static mr_status agree(const beginning *from, mr_sync_strategy *strategy) {
    const mr_model_checkpoint *facts = &from->facts;
    if (strategy->name != NULL && strcmp(strategy->name, facts->strategy) != 0)
        return error_set(MR_INVALID,
                         "the strategy is '%.64s', but the checkpoint %s is of strategy '%s': leave it out, or "
                         "give that name",
                         strategy->name, from->restore, facts->strategy);
    strategy->name = facts->strategy;
    if (strcmp(strategy->name, "momentum") == 0 && strategy->momentum != 0 &&
        value_of(strategy->momentum, 0) != facts->momentum)
        return contradicts(from, "momentum", value_of(strategy->momentum, 0), facts->momentum);
    if (strcmp(strategy->name, "trimmed_mean") == 0 && strategy->trim != 0 &&
        value_of(strategy->trim, 0) != facts->trim)
        return contradicts(from, "trim", value_of(strategy->trim, 0), facts->trim);
    strategy->momentum = option_of(facts->momentum);
    strategy->trim = option_of(facts->trim);
    return MR_OK;
}

static mr_status read_folder(const mr_checkpoint_options *options, beginning *out) {
    MR_TRY(model_path_resolve(options->checkpoint_dir, out->folder));
    bool exists = model_checkpoint_exists(out->folder);
    out->sets_aside = options->resume < 0;
    if (!exists || out->sets_aside) return MR_OK;
    if (out->restore[0] != '\0')
        return error_set(MR_INVALID,
                         "restore is %s, but checkpoint_dir %s has a checkpoint, too: leave restore out, or set "
                         "resume to -1",
                         out->restore, out->folder);
    memcpy(out->restore, out->folder, sizeof out->restore);
    return MR_OK;
}

static mr_status read_checkpoints(const mr_checkpoint_options *options, beginning *out) {
    if (options == NULL) return MR_OK;
    out->every_s = options->checkpoint_every == 0 ? EVERY_S : options->checkpoint_every;
    if (options->restore != NULL) MR_TRY(model_path_resolve(options->restore, out->restore));
    if (options->checkpoint_dir != NULL)
        MR_TRY(read_folder(options, out));
    else if (options->checkpoint_every != 0 || options->resume != 0)
        return error_set(MR_INVALID, "checkpoint_every (%g) and resume (%d) need checkpoint_dir",
                         options->checkpoint_every, options->resume);
    if (!(out->every_s > 0))
        return error_set(MR_INVALID, "checkpoint_every is %g; expected seconds, above 0", options->checkpoint_every);
    return out->restore[0] == '\0' ? MR_OK : mr_model_checkpoint_peek(out->restore, &out->facts);
}

static mr_status check_strategy(const mr_sync_strategy *strategy) {
    mr_tensor nothing = {.dtype = MR_F32, .dims = 1};
    const mr_tensor *models[] = {&nothing};
    mr_sync_strategy tried = *strategy;
    tried.weights = NULL; /* the number of workers is not known here */
    return mr_aggregate(&tried, models, 1, 1, NULL, (void *[]){NULL});
}

/* ---- Creation. */

/* Restarts and retries: as many as needed, unless the caller gives a number; negative: none. */
static int often(int wanted) { return wanted == 0 ? MR_NO_LIMIT : wanted < 0 ? 0 : wanted; }

mr_status mr_model_server_open(mr_context *mr, const mr_sync_strategy *strategy,
                               const mr_checkpoint_options *checkpoints, const mr_actor_options *options,
                               mr_actor *out) {
    static const mr_sync_strategy average = MR_INIT(mr_sync_strategy);
    static const mr_actor_options usual = MR_INIT(mr_actor_options);
    mr_sync_strategy strategy_copy;
    mr_checkpoint_options checkpoints_copy;
    mr_actor_options options_copy;
    OPTION_STRUCT_READ(mr_sync_strategy, trim, strategy, strategy_copy);
    OPTION_STRUCT_READ(mr_checkpoint_options, resume, checkpoints, checkpoints_copy);
    OPTION_STRUCT_READ(mr_actor_options, about, options, options_copy);
    mr_sync_strategy wanted = strategy == NULL ? average : *strategy;
    mr_actor_options lasting = options == NULL ? usual : *options;
    beginning from = {.every_s = EVERY_S};
    MR_TRY(read_checkpoints(checkpoints, &from));
    if (from.restore[0] != '\0') MR_TRY(agree(&from, &wanted));
    MR_TRY(check_strategy(&wanted));
    lasting.max_restarts = often(lasting.max_restarts);
    lasting.max_call_retries = often(lasting.max_call_retries);
    return mr_actor_create(mr, model_server_class(), &lasting,
                           MR_ARGS(mr_str(wanted.name == NULL ? "average" : wanted.name), mr_float(wanted.momentum),
                                   mr_float(wanted.trim), mr_str(from.restore), mr_str(from.folder),
                                   mr_float(from.every_s), mr_int(from.sets_aside)),
                           out);
}

mr_status mr_model_server_create(mr_context *mr, const mr_sync_strategy *strategy, const mr_actor_options *options,
                                 mr_actor *out) {
    return mr_model_server_open(mr, strategy, NULL, options, out);
}
