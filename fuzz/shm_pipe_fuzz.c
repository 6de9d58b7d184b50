/* shm_pipe_fuzz.c — two sides use a shm pipe correctly while a third party writes arbitrary values to the shared words
 * and passes arbitrary files. A read or write then moves at most the requested bytes or fails with MR_CORRUPT; without
 * such interference the bytes arrive in order.
 *
 * The input is a list of steps, each a byte and its parameters:
 *
 *   0 side, n16   write 16 n bytes              5 side           rest
 *   1 side, n16   read 16 n bytes               6 side, n32, b   pass a file of n bytes, sealed if b is odd
 *   2 side        offer, and take               7 side           decline
 *   3 side        grow                          8 side           arm, look, disarm, starve
 *   4 word, n64   write the word                9 word, n8       add to the word */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "fuzz/fuzz.h"
#include "net/socket/shm_pipe.h"

enum { BUFFER = 1 << 20, WORDS = 4096 / 8, STEPS_MAX = 64 };

typedef struct game {
    shm_pipe *sides[2];
    uint64_t *words;
    uint64_t sent[2], got[2]; /* bytes sent and received by that side */
    bool lied, over;
    uint8_t *buffer;
} game;

static uint8_t nth(uint64_t position) { return (uint8_t)(position * 7 + position / 251); }

static bool fine(game *game, mr_status status) {
    if (status == MR_OK) return true;
    MR_ASSERT(status == MR_CORRUPT && game->lied && mr_last_error()[0] != '\0');
    game->over = true; /* a real link would be closed now */
    return false;
}

static void write_some(game *game, int side, size_t size) {
    struct iovec pieces[] = {{game->buffer, size / 3}, {game->buffer + size / 3, size - size / 3}};
    size_t moved;
    bool wake;
    for (size_t i = 0; i < size; i++) game->buffer[i] = nth(game->sent[side] + i);
    span first = span_of(game->buffer, size / 3), rest = span_of(game->buffer + size / 3, size - size / 3);
    if (size <= SHM_PIPE_STRIDE && shm_pipe_send(game->sides[side], first, rest, &wake)) {
        game->sent[side] += size;
        return;
    }
    if (!fine(game, shm_pipe_write(game->sides[side], pieces, 2, &moved, &wake))) return;
    MR_ASSERT(moved <= size);
    game->sent[side] += moved;
}

static void read_some(game *game, int side, size_t size) {
    struct iovec pieces[] = {{game->buffer, size / 2}, {game->buffer + size / 2, size - size / 2}};
    size_t moved;
    bool wake;
    if (!fine(game, shm_pipe_read(game->sides[side], pieces, 2, &moved, &wake))) return;
    MR_ASSERT(moved <= size);
    if (!game->lied) MR_ASSERT(game->got[side] + moved <= game->sent[1 - side]);
    for (size_t i = 0; i < moved && !game->lied; i++) MR_ASSERT(game->buffer[i] == nth(game->got[side] + i));
    game->got[side] += moved;
}

static void offer(game *game, int side) {
    int fd;
    bool wake;
    if (!shm_pipe_may_offer(game->sides[side]) || shm_pipe_offer(game->sides[side], &fd) != MR_OK) return;
    mr_status status = shm_pipe_take(game->sides[1 - side], fd, &wake);
    if (status == MR_CORRUPT) MR_ASSERT(mr_last_error()[0] != '\0'); /* the offer was answered before */
}

static void pass(game *game, int side, uint32_t size, bool sealed) {
    bool wake;
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return;
    unsigned before = shm_pipe_large_rings(game->sides[side]);
    bool sized = ftruncate(fd, (off_t)size) == 0;
    if (sealed) sized &= fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    mr_status status = shm_pipe_take(game->sides[side], fd, &wake);
    if (!sized || !sealed || size != LARGE_RING_CAPACITY) MR_ASSERT(status == MR_CORRUPT);
    MR_ASSERT(shm_pipe_large_rings(game->sides[side]) == before + (status == MR_OK));
    if (status == MR_OK) game->lied = true; /* the other side did not create the file */
    close(fd);
}

static void look(game *game, int side) {
    shm_pipe *pipe = game->sides[side];
    bool empty = shm_pipe_arm(pipe);
    if (!game->lied) MR_ASSERT(empty == !shm_pipe_readable(pipe));
    shm_pipe_disarm(pipe);
    (void)shm_pipe_starve(pipe);
    (void)shm_pipe_has_room(pipe);
}

static void step(game *game, int kind, reader *reader) {
    uint8_t what = reader_u8(reader);
    int side = what & 1;
    switch (kind) {
    case 0: write_some(game, side, (size_t)16 * reader_u16(reader)); break;
    case 1: read_some(game, side, (size_t)16 * reader_u16(reader)); break;
    case 2: offer(game, side); break;
    case 3: (void)shm_pipe_grow(game->sides[side]); break;
    case 4:
    case 9:
        game->words[8 + what % 112] = kind == 4 ? reader_u64(reader) : game->words[8 + what % 112] + reader_u8(reader);
        game->lied = true;
        break;
    case 5: shm_pipe_rest(game->sides[side]); break;
    case 6: {
        uint32_t size = reader_u32(reader);
        pass(game, side, size, (reader_u8(reader) & 1) != 0);
        break;
    }
    case 7: shm_pipe_decline(game->sides[side]); break;
    case 8: look(game, side); break;
    default: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    game game = {.buffer = malloc(BUFFER)};
    reader reader = reader_of(data, size);
    int fd;
    _Static_assert(16 * UINT16_MAX <= BUFFER, "a step fits");
    MR_ASSERT(game.buffer != NULL && shm_pipe_create(&game.sides[0], &fd) == MR_OK);
    MR_ASSERT(shm_pipe_join(fd, false, &game.sides[1]) == MR_OK);
    game.words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MR_ASSERT(game.words != MAP_FAILED);
    close(fd);
    for (int i = 0; i < STEPS_MAX && !game.over && reader_left(&reader) >= 2; i++)
        step(&game, reader_u8(&reader) % 10, &reader);
    munmap(game.words, 4096);
    shm_pipe_close(game.sides[0]);
    shm_pipe_close(game.sides[1]);
    free(game.buffer);
    return 0;
}
