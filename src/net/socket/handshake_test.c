/* handshake_test.c — HELLO and BYE: encoded and decoded, truncated, damaged; proofs: with another token, with
 * changed bytes, sent back to their author, repeated, passed on, in another order. */
#include "net/socket/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static void hello_there_and_back(void **state) {
    handshake_hello self = {.peer = {.process = UINT64_C(0x123456789abcdef0), .pid = 4711, .name = "worker 3"},
                            .nonce = {1, 2, 3}},
                    other;
    uint8_t bytes[HANDSHAKE_HELLO_MAX];
    size_t size = handshake_hello_encode(bytes, &self);
    assert_int_equal(size, 52 + 8);
    assert_int_equal(handshake_hello_decode(span_of(bytes, size), &other), MR_OK);
    assert_true(other.peer.process == self.peer.process);
    assert_int_equal(other.peer.pid, 4711);
    assert_string_equal(other.peer.name, "worker 3");
    assert_memory_equal(other.nonce, self.nonce, sizeof self.nonce);
}

static void hello_with_the_longest_name(void **state) {
    handshake_hello self = {.peer = {.process = 1}}, other;
    memset(self.peer.name, 'n', sizeof self.peer.name); /* without a NUL */
    self.peer.name[5] = '\n';
    uint8_t bytes[HANDSHAKE_HELLO_MAX];
    size_t size = handshake_hello_encode(bytes, &self);
    assert_int_equal(size, HANDSHAKE_HELLO_MAX);
    assert_int_equal(handshake_hello_decode(span_of(bytes, size), &other), MR_OK);
    assert_int_equal(strlen(other.peer.name), PEER_NAME_MAX - 1);
    assert_int_equal(other.peer.name[5], '?');
}

static void another_protocol_is_denied(void **state) {
    handshake_hello self = {.peer = {.process = 1}}, other;
    uint8_t bytes[HANDSHAKE_HELLO_MAX];
    size_t size = handshake_hello_encode(bytes, &self);
    bytes[0]++;
    assert_int_equal(handshake_hello_decode(span_of(bytes, size), &other), MR_DENIED);
    assert_int_equal(handshake_hello_decode(span_of(bytes, 4), &other), MR_DENIED); /* whatever the other fields are */
    assert_non_null(strstr(mr_last_error(), "protocol 3, this program speaks 2: use the same Miniray release"));
    static const uint8_t of_release_0_2_0[] = {1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    span old = span_of(of_release_0_2_0, sizeof of_release_0_2_0);
    assert_int_equal(handshake_hello_decode(old, &other), MR_DENIED);
    assert_non_null(strstr(mr_last_error(), "protocol 1, this program speaks 2: use the same Miniray release"));
}

static void a_broken_hello_is_refused(void **state) {
    handshake_hello self = {.peer = {.process = 1, .name = "x"}}, other;
    uint8_t bytes[HANDSHAKE_HELLO_MAX + 1], broken[HANDSHAKE_HELLO_MAX + 1];
    size_t size = handshake_hello_encode(bytes, &self);
    bytes[size] = 0;
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(handshake_hello_decode(span_of(bytes, cut), &other), MR_CORRUPT);
    assert_int_equal(handshake_hello_decode(span_of(bytes, size + 1), &other), MR_CORRUPT); /* longer than stated */
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{7, 0x80} /* pid */, {8, 0} /* process 0 */, {48, 2}, {48, 0}, {51, 255}, {52, '\n'}, {52, 0}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        memcpy(broken, bytes, sizeof broken);
        broken[changes[i].at] = changes[i].value;
        assert_int_equal(handshake_hello_decode(span_of(broken, size), &other), MR_CORRUPT);
    }
}

static void bye_there_and_back(void **state) {
    uint8_t bytes[HANDSHAKE_BYE_MAX];
    cause cause;
    size_t size = handshake_bye_encode(bytes, MR_CLOSED, "not sent");
    assert_int_equal(size, 0);
    assert_int_equal(handshake_bye_decode(span_of(bytes, size), &cause), MR_OK);
    assert_int_equal(cause.status, MR_CLOSED);
    size = handshake_bye_encode(bytes, MR_CORRUPT, "a frame of unknown kind 9");
    assert_int_equal(handshake_bye_decode(span_of(bytes, size), &cause), MR_OK);
    assert_int_equal(cause.status, MR_CORRUPT);
    assert_string_equal(cause.text, "the peer ended the link: a frame of unknown kind 9");
    assert_int_equal(cause.exit_code, -1);
    char longest[600];
    memset(longest, 'l', sizeof longest);
    size = handshake_bye_encode(bytes, MR_DENIED, longest);
    assert_int_equal(size, HANDSHAKE_BYE_MAX);
    assert_int_equal(handshake_bye_decode(span_of(bytes, size), &cause), MR_OK);
}

static void a_broken_bye_is_refused(void **state) {
    uint8_t bytes[HANDSHAKE_BYE_MAX];
    cause cause;
    size_t size = handshake_bye_encode(bytes, MR_IO, "text");
    for (size_t cut = 1; cut < size; cut++)
        assert_int_equal(handshake_bye_decode(span_of(bytes, cut), &cause), MR_CORRUPT);
    static const uint8_t statuses[] = {MR_OK, MR_CLOSED, 200};
    for (size_t i = 0; i < sizeof statuses; i++) {
        bytes[0] = statuses[i];
        assert_int_equal(handshake_bye_decode(span_of(bytes, size), &cause), MR_CORRUPT);
    }
}

/* A head that decodes encodes to the same bytes. */
static void random_bytes_are_refused_or_exact(void **state) {
    rng rng;
    rng_init(&rng, 3);
    int accepted = 0;
    for (int i = 0; i < 200000; i++) {
        uint8_t bytes[HANDSHAKE_HELLO_MAX] = {0}, again[HANDSHAKE_HELLO_MAX];
        handshake_hello self = {.peer = {.process = rng_next(&rng), .pid = (int)rng_below(&rng, 1000), .name = "any"}},
                        other;
        size_t size = handshake_hello_encode(bytes, &self);
        for (uint64_t n = rng_below(&rng, 3); n > 0; n--)
            bytes[rng_below(&rng, size)] ^= (uint8_t)(1u << rng_below(&rng, 8));
        if (rng_chance(&rng, 0.1)) size = (size_t)rng_below(&rng, sizeof bytes + 1);
        if (handshake_hello_decode(span_of(bytes, size), &other) != MR_OK) continue;
        accepted++;
        assert_int_equal(handshake_hello_encode(again, &other), size);
        assert_memory_equal(again, bytes, size);
    }
    assert_true(accepted > 10000);
}

/* ---- Both sides. */

typedef struct pair {
    handshake initiator, acceptor;
} pair;

static hmac *shared_hmac(void **state) { return *state; }

static int load(void **state) { return hmac_open((hmac **)state) == MR_OK ? 0 : 1; }
static int unload(void **state) { return hmac_close(*state), 0; }

static address address_of(const char *text) {
    address address;
    assert_int_equal(address_parse(text, &address), MR_OK);
    return address;
}

static pair pair_of(const hmac *hmac, uint8_t nonce, const token *of_initiator, const token *of_acceptor) {
    pair pair;
    address at = address_of("tcp:127.0.0.1:7000");
    handshake_hello initiator = {.peer = {.process = 1, .pid = 11, .name = "i"}, .nonce = {nonce}};
    handshake_hello acceptor = {.peer = {.process = 2, .pid = 22, .name = "a"}, .nonce = {nonce, 1}};
    handshake_init(&pair.initiator, HANDSHAKE_INITIATOR, &initiator, hmac, of_initiator, &at);
    handshake_init(&pair.acceptor, HANDSHAKE_ACCEPTOR, &acceptor, hmac, of_acceptor, &at);
    return pair;
}

static span proof_of(const handshake_answer *answer) {
    assert_true(answer->proof);
    return span_of(answer->bytes, sizeof answer->bytes);
}

/* Both HELLOs: the acceptor then waits for *answer, the initiator's PROOF. */
static void greet(pair *pair, handshake_answer *answer) {
    assert_int_equal(handshake_take(&pair->acceptor, FRAME_HELLO, handshake_own_hello(&pair->initiator), answer),
                     MR_OK);
    assert_true(answer->hello && !answer->proof);
    assert_int_equal(handshake_take(&pair->initiator, FRAME_HELLO, handshake_own_hello(&pair->acceptor), answer),
                     MR_OK);
    assert_true(!answer->hello && answer->proof);
    assert_int_equal(pair->acceptor.state, HANDSHAKE_PROVES);
    assert_int_equal(pair->initiator.state, HANDSHAKE_PROVES);
}

static const token ours = {{1, 2, 3}}, theirs = {{1, 2, 4}};

static void both_prove_the_token(void **state) {
    pair pair = pair_of(shared_hmac(state), 1, &ours, &ours);
    handshake_answer first, second;
    greet(&pair, &first);
    assert_int_equal(handshake_take(&pair.acceptor, FRAME_PROOF, proof_of(&first), &second), MR_OK);
    assert_int_equal(pair.acceptor.state, HANDSHAKE_OPEN);
    assert_int_equal(handshake_take(&pair.initiator, FRAME_PROOF, proof_of(&second), &first), MR_OK);
    assert_int_equal(pair.initiator.state, HANDSHAKE_OPEN);
    assert_false(first.hello || first.proof);
    assert_int_equal(pair.initiator.peer.process, 2);
    assert_string_equal(pair.acceptor.peer.name, "i");
    assert_int_equal(handshake_take(&pair.acceptor, FRAME_PROOF, proof_of(&second), &first), MR_CORRUPT);
}

static void a_unix_socket_needs_no_proof(void **state) {
    pair pair = pair_of(NULL, 1, NULL, NULL);
    handshake_answer answer;
    assert_int_equal(handshake_take(&pair.acceptor, FRAME_HELLO, handshake_own_hello(&pair.initiator), &answer), MR_OK);
    assert_true(answer.hello && !answer.proof);
    assert_int_equal(handshake_take(&pair.initiator, FRAME_HELLO, handshake_own_hello(&pair.acceptor), &answer), MR_OK);
    assert_false(answer.hello || answer.proof);
    assert_int_equal(pair.acceptor.state, HANDSHAKE_OPEN);
    assert_int_equal(pair.initiator.state, HANDSHAKE_OPEN);
}

static void another_token_is_denied(void **state) {
    pair pair = pair_of(shared_hmac(state), 1, &theirs, &ours);
    handshake_answer answer, none;
    greet(&pair, &answer);
    assert_int_equal(handshake_take(&pair.acceptor, FRAME_PROOF, proof_of(&answer), &none), MR_DENIED);
    assert_false(none.proof); /* the stranger gets nothing that depends on the token */
    assert_int_equal(pair.acceptor.state, HANDSHAKE_PROVES);
    assert_non_null(strstr(mr_last_error(), "the process that connects at tcp:127.0.0.1:7000 does not have"));
    /* and a false acceptor is refused by the initiator, whatever it has proved to whom */
    uint8_t forged[HMAC_SIZE] = {0};
    assert_int_equal(handshake_take(&pair.initiator, FRAME_PROOF, span_of(forged, sizeof forged), &none), MR_DENIED);
    assert_non_null(strstr(mr_last_error(), "the process that listens at tcp:127.0.0.1:7000 does not have"));
}

static void a_proof_sent_back_is_denied(void **state) {
    pair pair = pair_of(shared_hmac(state), 1, &ours, &ours);
    handshake_answer answer, none;
    greet(&pair, &answer);
    assert_int_equal(handshake_take(&pair.initiator, FRAME_PROOF, proof_of(&answer), &none), MR_DENIED);
    assert_int_equal(pair.initiator.state, HANDSHAKE_PROVES);
}

static void a_proof_is_for_one_link(void **state) {
    pair old = pair_of(shared_hmac(state), 1, &ours, &ours), new = pair_of(shared_hmac(state), 2, &ours, &ours);
    handshake_answer of_old, of_new, none;
    greet(&old, &of_old);
    greet(&new, &of_new);
    assert_int_equal(handshake_take(&new.acceptor, FRAME_PROOF, proof_of(&of_old), &none), MR_DENIED);
    assert_int_equal(handshake_take(&new.acceptor, FRAME_PROOF, proof_of(&of_new), &none), MR_OK);
}

/* A process that listens at one port cannot pass the proofs on to a process of the deployment at another port. */
static void a_proof_is_for_one_address(void **state) {
    pair pair = pair_of(shared_hmac(state), 1, &ours, &ours);
    address other = address_of("tcp:127.0.0.1:7001");
    address_format(&other, pair.acceptor.address);
    handshake_answer answer, none;
    greet(&pair, &answer);
    assert_int_equal(handshake_take(&pair.acceptor, FRAME_PROOF, proof_of(&answer), &none), MR_DENIED);
}

/* Every bit of both HELLOs and of both proofs matters. */
static void changed_bytes_are_denied(void **state) {
    pair pair = pair_of(shared_hmac(state), 1, &ours, &ours);
    handshake_answer first, second, none;
    greet(&pair, &first);
    for (int side = 0; side < 2; side++)
        for (size_t bit = 0; bit < 8 * pair.acceptor.hello_sizes[side]; bit++) {
            handshake changed = pair.acceptor;
            changed.hellos[side][bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_equal(handshake_take(&changed, FRAME_PROOF, proof_of(&first), &none), MR_DENIED);
        }
    for (size_t bit = 0; bit < 8 * HMAC_SIZE; bit++) {
        handshake_answer bad = first;
        bad.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(handshake_take(&pair.acceptor, FRAME_PROOF, proof_of(&bad), &none), MR_DENIED);
    }
    assert_int_equal(handshake_take(&pair.acceptor, FRAME_PROOF, proof_of(&first), &second), MR_OK);
    for (size_t bit = 0; bit < 8 * HMAC_SIZE; bit++) {
        handshake_answer bad = second;
        bad.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(handshake_take(&pair.initiator, FRAME_PROOF, proof_of(&bad), &none), MR_DENIED);
    }
    assert_int_equal(handshake_take(&pair.initiator, FRAME_PROOF, proof_of(&second), &none), MR_OK);
}

static void frames_in_another_order_are_refused(void **state) {
    static const frame_kind kinds[] = {FRAME_MESSAGE, FRAME_PING, FRAME_PONG, FRAME_PROOF};
    uint8_t zeros[HMAC_SIZE] = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pair pair = pair_of(shared_hmac(state), 1, &ours, &ours);
        handshake_answer answer;
        span head = span_of(zeros, sizeof zeros);
        assert_int_equal(handshake_take(&pair.acceptor, kinds[i], head, &answer), MR_CORRUPT);
        assert_int_equal(handshake_take(&pair.initiator, kinds[i], head, &answer), MR_CORRUPT);
        assert_non_null(strstr(mr_last_error(), "frame before HELLO"));
        greet(&pair, &answer);
        frame_kind next = kinds[i] == FRAME_PROOF ? FRAME_HELLO : kinds[i];
        assert_int_equal(handshake_take(&pair.acceptor, next, head, &answer), MR_CORRUPT);
        assert_non_null(strstr(mr_last_error(), "before PROOF"));
        for (size_t size = 0; size < sizeof zeros; size++)
            assert_int_equal(handshake_take(&pair.acceptor, FRAME_PROOF, span_of(zeros, size), &answer), MR_CORRUPT);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, load, unload)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_there_and_back),
        cmocka_unit_test(hello_with_the_longest_name),
        cmocka_unit_test(another_protocol_is_denied),
        cmocka_unit_test(a_broken_hello_is_refused),
        cmocka_unit_test(bye_there_and_back),
        cmocka_unit_test(a_broken_bye_is_refused),
        cmocka_unit_test(random_bytes_are_refused_or_exact),
        TEST(both_prove_the_token),
        cmocka_unit_test(a_unix_socket_needs_no_proof),
        TEST(another_token_is_denied),
        TEST(a_proof_sent_back_is_denied),
        TEST(a_proof_is_for_one_link),
        TEST(a_proof_is_for_one_address),
        TEST(changed_bytes_are_denied),
        TEST(frames_in_another_order_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
