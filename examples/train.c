/* train.c — handwritten digits: four workers train a small network, each on its shard of the images, and average their
 * weights after every epoch.
 *
 *     cc train.c $(pkg-config --cflags --libs miniray) -lm -o train && ./train data/digits.txt */
#include <math.h>
#include <miniray/train.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, HIDDEN = 32, DIGITS = 10, IMAGES_MAX = 2000, WORKERS = 4, EPOCHS = 30 };
#define RATE 0.05f

/* ---- Images: one line each, with the label and 64 pixels from 0 to g (data/README.md). Every seventh image is for the
 * test. */

typedef struct image {
    float pixel[PIXELS + 1]; /* the last one is always 1, for the bias */
    int label;
} image;

static size_t load_images(const char *path, bool test, image *images) {
    char line[128];
    size_t count = 0;
    FILE *file = fopen(path, "r");
    for (size_t at = 0; file != NULL && fgets(line, sizeof line, file) != NULL; at++) {
        if ((at % 7 == 6) != test || count == IMAGES_MAX || strlen(line) < PIXELS + 2) continue;
        if (line[0] < '0' || line[0] > '9') continue;
        image *image = &images[count++];
        image->label = line[0] - '0';
        for (int i = 0; i < PIXELS; i++) {
            char c = line[2 + i];
            image->pixel[i] = (float)(c >= 'a' ? c - 'a' + 10 : c - '0') / 16;
        }
        image->pixel[PIXELS] = 1;
    }
    if (file != NULL) fclose(file);
    return count;
}

/* ---- The network: 64 pixels, 32 hidden units, 10 digits. */

typedef struct network {
    float hidden[HIDDEN][PIXELS + 1];
    float output[DIGITS][HIDDEN + 1];
} network;

typedef struct thought { /* activations of the network for an image */
    float hidden[HIDDEN + 1], digit[DIGITS];
} thought;

static void network_init(network *network) {
    uint32_t state = 1; /* every worker begins with the same weights */
    float *weights = &network->hidden[0][0];
    for (size_t i = 0; i < sizeof *network / sizeof(float); i++) {
        state = state * 1664525 + 1013904223;
        weights[i] = ((float)(state >> 8) / (1 << 24) - 0.5f) * 0.4f;
    }
}

static int think(const network *network, const image *image, thought *out) {
    float sum = 0;
    int best = 0;
    for (int h = 0; h < HIDDEN; h++) {
        float x = 0;
        for (int i = 0; i <= PIXELS; i++) x += network->hidden[h][i] * image->pixel[i];
        out->hidden[h] = tanhf(x);
    }
    out->hidden[HIDDEN] = 1;
    for (int d = 0; d < DIGITS; d++) {
        float x = 0;
        for (int h = 0; h <= HIDDEN; h++) x += network->output[d][h] * out->hidden[h];
        sum += out->digit[d] = expf(x);
        if (out->digit[d] > out->digit[best]) best = d;
    }
    for (int d = 0; d < DIGITS; d++) out->digit[d] /= sum;
    return best;
}

static float learn(network *network, const image *image) { /* one step of gradient descent; the loss before it */
    thought thought;
    float error[DIGITS];
    think(network, image, &thought);
    for (int d = 0; d < DIGITS; d++) error[d] = thought.digit[d] - (float)(d == image->label);
    for (int h = 0; h < HIDDEN; h++) {
        float slope = 0;
        for (int d = 0; d < DIGITS; d++) slope += error[d] * network->output[d][h];
        slope *= 1 - thought.hidden[h] * thought.hidden[h];
        for (int i = 0; i <= PIXELS; i++) network->hidden[h][i] -= RATE * slope * image->pixel[i];
    }
    for (int d = 0; d < DIGITS; d++)
        for (int h = 0; h <= HIDDEN; h++) network->output[d][h] -= RATE * error[d] * thought.hidden[h];
    return -logf(thought.digit[image->label] + 1e-9f);
}

/* ---- The worker. */

typedef struct reader {
    network network;
    size_t count, own;
    int64_t mine[IMAGES_MAX];
    image images[IMAGES_MAX];
} reader;

MR_CREATE(Reader) {
    reader *self = calloc(1, sizeof *self);
    char path[1024];
    mr_span text;
    MR_TRY(mr_set_self(call, self, free));
    MR_TRY(mr_arg_str(call, 1, &text));
    snprintf(path, sizeof path, "%.*s", (int)text.size, (const char *)text.data);
    self->count = load_images(path, false, self->images);
    if (self->count < WORKERS) return mr_fail(call, "there are no images in %s: ./train data/digits.txt", path);
    network_init(&self->network);
    return MR_OK;
}

MR_METHOD(Reader, load_data_shard) {
    reader *self = mr_self(call);
    int64_t shard, shards;
    MR_TRY(mr_arg_int(call, 0, &shard));
    MR_TRY(mr_arg_int(call, 1, &shards));
    self->own = mr_shard_size(self->count, (size_t)shards, (size_t)shard);
    return mr_shard_indices(self->count, (size_t)shards, (size_t)shard, 0, self->mine);
}

MR_METHOD(Reader, train_epoch) {
    reader *self = mr_self(call);
    double loss = 0;
    for (size_t i = 0; i < self->own; i++) loss += (double)learn(&self->network, &self->images[self->mine[i]]);
    mr_arg result[] = {mr_str("loss"), mr_float(loss / (double)self->own), mr_str("samples"),
                       mr_int((int64_t)self->own)};
    return mr_return(call, mr_map(result, 2));
}

MR_METHOD(Reader, get_weights) {
    reader *self = mr_self(call);
    mr_arg weights[] = {
        mr_tensor_of(MR_F32, self->network.hidden, 2, (int64_t[]){HIDDEN, PIXELS + 1}),
        mr_tensor_of(MR_F32, self->network.output, 2, (int64_t[]){DIGITS, HIDDEN + 1}),
    };
    return mr_return(call, mr_list(weights, 2));
}

static mr_status take_weights(network *network, const mr_value *weights) {
    mr_value item;
    mr_tensor hidden, output;
    MR_TRY(mr_value_item(weights, 0, &item));
    MR_TRY(mr_value_tensor(&item, &hidden));
    MR_TRY(mr_value_item(weights, 1, &item));
    MR_TRY(mr_value_tensor(&item, &output));
    if (hidden.bytes != sizeof network->hidden || output.bytes != sizeof network->output) return MR_INVALID;
    memcpy(network->hidden, hidden.data, hidden.bytes);
    memcpy(network->output, output.data, output.bytes);
    return MR_OK;
}

MR_METHOD(Reader, set_weights) {
    reader *self = mr_self(call);
    mr_value weights;
    MR_TRY(mr_arg_value(call, 0, &weights));
    return take_weights(&self->network, &weights);
}

/* ---- The driver. */

static volatile sig_atomic_t interrupted;
static void on_interrupt(int number) { interrupted = 1; }
static bool goes_on(void *user, size_t done) { return !interrupted; }

static double accuracy(const network *network, const char *path) {
    static image images[IMAGES_MAX];
    size_t count = load_images(path, true, images), right = 0;
    thought thought;
    for (size_t i = 0; i < count; i++) right += think(network, &images[i], &thought) == images[i].label;
    return count == 0 ? 0 : (double)right / (double)count;
}

static mr_status test(mr_context *mr, mr_trainer *trainer, const char *path) {
    mr_actor server;
    mr_ref ref;
    mr_value weights;
    network network;
    MR_TRY(mr_trainer_server(trainer, &server));
    MR_TRY(mr_model_pull(mr, server, &ref));
    MR_TRY(mr_get(mr, ref, MR_FOREVER, &weights));
    MR_TRY(take_weights(&network, &weights));
    printf("test accuracy %.1f %%\n", 100 * accuracy(&network, path));
    mr_value_release(&weights);
    mr_release(mr, ref);
    return MR_OK;
}

static mr_status train(mr_context *mr, mr_trainer *trainer, const char *path) {
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        mr_value result, loss;
        double number;
        mr_status status = mr_trainer_epoch(trainer, epoch, true, &result);
        if (status == MR_CANCELLED) break; /* Ctrl-C: training ends, and the model is tested */
        if (status != MR_OK) return status;
        MR_TRY(mr_value_field(&result, "loss", &loss));
        MR_TRY(mr_value_float(&loss, &number));
        printf("epoch %2d  loss %.4f\n", (int)epoch + 1, number);
        mr_value_release(&result);
    }
    return test(mr, trainer, path);
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "data/digits.txt";
    mr_arg args[] = {mr_str(path)};
    mr_trainer_options options = MR_OPTIONS(mr_trainer_options, .num_workers = WORKERS, .worker_class = "Reader",
                                            .args = args, .arg_count = 1, .max_failures = 3, .poll = goes_on);
    mr_trainer *trainer = NULL;
    mr_context *mr;
    if (mr_init(NULL, &mr) != MR_OK) return fprintf(stderr, "%s\n", mr_last_error()), 1;
    signal(SIGINT, on_interrupt);
    mr_status status = mr_trainer_create(mr, &options, &trainer);
    if (status == MR_OK) status = train(mr, trainer, path);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    mr_trainer_destroy(trainer);
    mr_shutdown(mr);
    return status != MR_OK;
}
