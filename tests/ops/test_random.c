/* Philox 4x32-10 and the addresses of random numbers. */
#include "random.h"
#include "unit.h"

#include <string.h>

/* The known answers published with the generator (Random123, kat_vectors). */
static void test_philox_gives_the_published_words(void) {
    static const struct {
        uint32_t counter[4], key[2], wanted[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const uint32_t *c = rows[r].counter;
        const rp_philox drawn = rp_philox_draw(rows[r].key, c[0], c[1], c[2], c[3]);
        for (int i = 0; i < 4; i++)
            RP_CHECK_EQUAL(drawn.word[i], rows[r].wanted[i]);
    }
}

static void test_key_depends_on_each_of_its_parts(void) {
    static const struct {
        uint64_t seed, step;
        uint32_t micro_batch;
    } rows[] = {{0, 0, 0}, {1, 0, 0}, {UINT64_C(1) << 32, 0, 0},
                {0, 1, 0}, {0, 0, 1}, {0, UINT64_C(1) << 32, 0}};
    enum { ROWS = sizeof rows / sizeof rows[0] };
    uint32_t keys[ROWS][2];
    for (size_t r = 0; r < ROWS; r++) {
        rp_random_key(rows[r].seed, rows[r].step, rows[r].micro_batch, keys[r]);
        for (size_t k = 0; k < r; k++)
            RP_CHECK(memcmp(keys[r], keys[k], sizeof keys[r]) != 0, "rows %zu and %zu share a key",
                     k, r);
    }
}

/* p of 2^32 words lie below the threshold. */
static void test_dropout_threshold(void) {
    RP_CHECK_EQUAL(rp_dropout_threshold(0.0f), 0);
    RP_CHECK_EQUAL(rp_dropout_threshold(0.25f), 1 << 30);
    RP_CHECK_EQUAL(rp_dropout_threshold(0.5f), INT64_C(1) << 31);
    RP_CHECK_EQUAL(rp_dropout_threshold(0x1.fffffep-1f), 0xffffff00);
}

static const rp_test tests[] = {
    RP_TEST(test_philox_gives_the_published_words),
    RP_TEST(test_key_depends_on_each_of_its_parts),
    RP_TEST(test_dropout_threshold),
};
RP_SUITE(random, tests)
