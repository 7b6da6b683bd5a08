/* Kernels on the emulator: built-in variables, barriers, warp intrinsics, shared memory, atomics,
 * limits of a launch. */
#include <string.h>

#include "engine_kernels.h"
#include "unit.h"

/* Device memory with `bytes` of `from`, or as the emulator fills it. */
static void *device_copy(const void *from, size_t bytes) {
    void *block = NULL;
    RP_REQUIRE_EQUAL(cudaMalloc(&block, bytes), cudaSuccess);
    if (from != NULL)
        RP_REQUIRE_EQUAL(cudaMemcpy(block, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return block;
}

static void host_copy(void *to, const void *from, size_t bytes) {
    RP_REQUIRE_EQUAL(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
}

static void test_a_block_sums_through_shuffles_and_shared_memory(void) {
    enum { COUNT = 5000 };
    static float x[COUNT];
    static uint16_t narrow[COUNT];
    float sum = 0.0f, got[2] = {0};
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits;
        x[i] = (float)(i % 7 - 2);
        memcpy(&bits, &x[i], sizeof bits);
        narrow[i] = (uint16_t)(bits >> 16); /* small integers are exact */
        sum += x[i];
    }
    float *in = device_copy(x, sizeof x), *out = device_copy(NULL, sizeof got);
    uint16_t *in_bf16 = device_copy(narrow, sizeof narrow);
    RP_CHECK_EQUAL(engine_sum(in, out, COUNT, NULL), cudaSuccess);
    RP_CHECK_EQUAL(engine_sum_bf16(in_bf16, out + 1, COUNT, NULL), cudaSuccess);
    host_copy(got, out, sizeof got);
    RP_CHECK(got[0] == sum && got[1] == sum, "%g and %g, not %g", got[0], got[1], sum);
    cudaFree(in);
    cudaFree(in_bf16);
    cudaFree(out);
}

static void test_a_block_has_its_own_dynamic_shared_memory(void) {
    enum { ROWS = 300 };
    static float data[ROWS][64], got[ROWS][64];
    for (int i = 0; i < ROWS * 64; i++)
        data[i / 64][i % 64] = (float)i;
    float *device = device_copy(data, sizeof data);
    RP_CHECK_EQUAL(engine_reverse(device, ROWS, NULL), cudaSuccess);
    host_copy(got, device, sizeof got);
    int wrong = 0;
    for (int i = 0; i < ROWS * 64; i++)
        wrong += got[i / 64][i % 64] != data[i / 64][63 - i % 64];
    RP_CHECK_EQUAL(wrong, 0);
    cudaFree(device);
}

/* What a lane's intrinsics of warp_kernel give, worked out one by one. */
static void expect(unsigned lane, unsigned wanted[WARP_RESULTS]) {
    unsigned value[32], ballot = 0, match = 0, sum = 0, most = 0;
    for (unsigned i = 0; i < 32; i++) {
        value[i] = i * 7 % 11;
        sum += value[i];
        most = value[i] > most ? value[i] : most;
    }
    for (unsigned i = 0; i < 32; i++) {
        ballot |= (unsigned)(value[i] > 5) << i;
        match |= (unsigned)(value[i] == value[lane]) << i;
    }
    const unsigned below = lane >= 2 ? lane - 2 : lane;
    const unsigned above = (lane & 15) + 4 < 16 ? lane + 4 : lane;
    const unsigned all[WARP_RESULTS] = {
        value[5],
        value[(lane & ~7u) + 1],
        value[lane ^ 3],
        value[below],
        value[above],
        ballot,
        0,
        1,
        match,
        0xFFFFFFFFu + 1u,
        sum,
        (unsigned)-9,
        most,
        0,
    };
    memcpy(wanted, all, sizeof all);
}

static void test_lanes_of_a_warp_exchange_values(void) {
    unsigned got[WARP_RESULTS + 1][32], wanted[WARP_RESULTS];
    unsigned *out = device_copy(NULL, sizeof got);
    RP_CHECK_EQUAL(engine_warp(out, NULL), cudaSuccess);
    host_copy(got, out, sizeof got);
    for (unsigned lane = 0; lane < 32; lane++) {
        expect(lane, wanted);
        for (int i = 0; i < WARP_RESULTS; i++)
            RP_CHECK(got[i][lane] == wanted[i], "intrinsic %d, lane %u: %#x, not %#x", i, lane,
                     got[i][lane], wanted[i]);
        RP_CHECK_EQUAL(got[WARP_RESULTS][lane], 31 * 32 / 2);
    }
    cudaFree(out);
}

static void test_the_last_block_adds_what_the_others_left(void) {
    enum { BLOCKS = 77 };
    float x[BLOCKS * 32], got = 0.0f;
    for (int i = 0; i < BLOCKS * 32; i++)
        x[i] = (float)(i % 5);
    float *in = device_copy(x, sizeof x), *parts = device_copy(NULL, BLOCKS * sizeof *parts);
    float *out = device_copy(NULL, sizeof got);
    unsigned *count = device_copy(&(unsigned){0}, sizeof *count);
    RP_CHECK_EQUAL(engine_last_block(in, parts, count, out, BLOCKS, NULL), cudaSuccess);
    host_copy(&got, out, sizeof got);
    float wanted = 0.0f;
    for (int i = 0; i < BLOCKS * 32; i++)
        wanted += x[i];
    RP_CHECK(got == wanted, "%g, not %g", got, wanted);
    cudaFree(in);
    cudaFree(parts);
    cudaFree(out);
    cudaFree(count);
}

static void test_barriers_count_vote_and_end_a_block(void) {
    int got[2] = {0};
    int *out = device_copy(NULL, sizeof got);
    RP_CHECK_EQUAL(engine_count(out, 37, 100, 0, NULL), cudaSuccess);
    host_copy(got, out, sizeof got);
    RP_CHECK_EQUAL(got[0], 63);
    RP_CHECK_EQUAL(got[1], 2);
    RP_CHECK_EQUAL(engine_count(out, 0, 1024, 0, NULL), cudaSuccess);
    host_copy(got, out, sizeof got);
    RP_CHECK_EQUAL(got[0], 1024);
    RP_CHECK_EQUAL(got[1], 3);
    cudaFree(out);
}

static void test_a_launch_beyond_the_limits_fails(void) {
    int *out = device_copy(NULL, 8);
    RP_CHECK_EQUAL(engine_count(out, 0, 1025, 0, NULL), cudaErrorInvalidConfiguration);
    RP_CHECK_EQUAL(engine_count(out, 0, 0, 0, NULL), cudaErrorInvalidConfiguration);
    RP_CHECK_EQUAL(engine_add((float *)out, 1.0f, 0, NULL), cudaErrorInvalidConfiguration);
    RP_CHECK_EQUAL(engine_add((float *)out, 1.0f, INT64_C(128) << 32, NULL),
                   cudaErrorInvalidConfiguration);
    RP_CHECK_EQUAL(engine_count(out, 0, 32, 49153, NULL), cudaErrorInvalidValue);
    RP_CHECK_EQUAL(cudaGetLastError(), cudaSuccess);
    RP_CHECK_EQUAL(engine_allow(100000), cudaSuccess);
    RP_CHECK_EQUAL(engine_count(out, 0, 32, 100000, NULL), cudaSuccess);
    RP_CHECK_EQUAL(engine_count(out, 0, 32, 100001, NULL), cudaErrorInvalidValue);
    RP_CHECK_EQUAL(engine_allow(1 << 20), cudaErrorInvalidValue);
    RP_CHECK_EQUAL(cudaGetLastError(), cudaErrorInvalidValue);
    cudaFree(out);
}

static const rp_test tests[] = {
    RP_TEST(test_a_block_sums_through_shuffles_and_shared_memory),
    RP_TEST(test_a_block_has_its_own_dynamic_shared_memory),
    RP_TEST(test_lanes_of_a_warp_exchange_values),
    RP_TEST(test_the_last_block_adds_what_the_others_left),
    RP_TEST(test_barriers_count_vote_and_end_a_block),
    RP_TEST(test_a_launch_beyond_the_limits_fails),
};
RP_SUITE(engine, tests)
