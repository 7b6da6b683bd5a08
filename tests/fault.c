/* Failing allocations: the allocator and the sweep over n. */
#include "fault.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The allocator --------------------------------------------------------------------------- */

/* In front of every block; `guard` is repeated behind it. */
typedef struct block_header {
    size_t bytes;
    uint64_t guard;
} block_header;

static const uint64_t guard_live = UINT64_C(0x5AFEB10C5AFEB10C), guard_freed = 0xDEAD;

static bool is_intact(const block_header *header) {
    uint64_t behind = 0;
    if (header->guard != guard_live)
        return false;
    memcpy(&behind, (const char *)(header + 1) + header->bytes, sizeof behind);
    return behind == guard_live;
}

static void *hand_out(rp_faulty_memory *memory, size_t bytes) {
    if (bytes > SIZE_MAX - sizeof(block_header) - sizeof guard_live)
        return NULL;
    block_header *header = malloc(sizeof *header + bytes + sizeof guard_live);
    if (header == NULL)
        return NULL;
    *header = (block_header){bytes, guard_live};
    memset(header + 1, 0xA5, bytes);
    memcpy((char *)(header + 1) + bytes, &guard_live, sizeof guard_live);
    memory->live++;
    return header + 1;
}

static void take_back(rp_faulty_memory *memory, void *block) {
    if (block == NULL)
        return;
    block_header *header = (block_header *)block - 1;
    if (!is_intact(header)) {
        memory->misused = true;
        return;
    }
    memset(block, 0x5A, header->bytes);
    header->guard = guard_freed;
    free(header);
    memory->live--;
}

static void *resize_faulty(void *user, void *block, size_t bytes) {
    rp_faulty_memory *memory = user;
    if (bytes == 0) {
        take_back(memory, block);
        return NULL;
    }
    memory->requests++;
    if (memory->requests >= memory->fail_from && memory->requests <= memory->fail_to) {
        memory->failed++;
        return NULL;
    }
    void *fresh = hand_out(memory, bytes);
    if (fresh == NULL || block == NULL)
        return fresh;
    const size_t had = ((block_header *)block - 1)->bytes;
    memcpy(fresh, block, had < bytes ? had : bytes);
    take_back(memory, block);
    return fresh;
}

rp_allocator rp_faulty_allocator(rp_faulty_memory *memory) {
    return (rp_allocator){resize_faulty, memory};
}

/* ---- The sweep ------------------------------------------------------------------------------- */

typedef struct outcome {
    rp_status status;
    char message[512];
} outcome;

static outcome run(rp_faulty_memory *memory, rp_scenario scenario, void *user) {
    rp_context_options options = RP_CONTEXT_OPTIONS;
    options.allocator = rp_faulty_allocator(memory);
    options.threads = 1;
    rp_context *context = NULL;
    outcome ended = {rp_context_create(&options, &context), "no context"};
    if (ended.status != RP_OK)
        return ended;
    ended.status = scenario(context, user);
    snprintf(ended.message, sizeof ended.message, "%s", rp_context_message(context));
    rp_context_destroy(context);
    return ended;
}

const char *rp_fault_problem(rp_scenario scenario, void *user, int64_t from, int64_t to) {
    rp_faulty_memory memory = {.fail_from = from, .fail_to = to};
    const outcome ended = run(&memory, scenario, user);
    if (memory.failed == 0)
        return "no allocation failed";
    if (ended.status != RP_OK && ended.status != RP_OUT_OF_MEMORY)
        return rp_status_name(ended.status);
    if (ended.status != RP_OK && ended.message[0] == 0)
        return "no message";
    if (memory.misused)
        return "a block was damaged or freed twice";
    return memory.live == 0 ? NULL : "a leak";
}

static bool check_run(const char *name, int64_t from, int64_t to, rp_scenario scenario,
                      void *user) {
    const char *problem = rp_fault_problem(scenario, user, from, to);
    return RP_CHECK(problem == NULL, "%s: allocation %lld %s fails: %s", name, (long long)from,
                    from == to ? "alone" : "and all behind it", problem);
}

/* The next n: every one of the first 48 and of the last 16, and about 64 between them. */
static int64_t next(int64_t n, int64_t count) {
    const int64_t first = (int64_t)rp_test_samples(48, INT32_MAX), last = first / 3;
    if (n < first || n >= count - last)
        return n + 1;
    const int64_t stride = 1 + (count - first - last) / (first + last);
    return n + stride < count - last ? n + stride : count - last;
}

void rp_fault_sweep(const char *name, rp_scenario scenario, void *user) {
    rp_faulty_memory first = {0}, second = {0};
    const outcome ended = run(&first, scenario, user);
    if (!RP_CHECK(ended.status == RP_OK, "%s: fails with all memory: %s: %s", name,
                  rp_status_name(ended.status), ended.message) ||
        !RP_CHECK(first.live == 0 && !first.misused, "%s: %lld blocks leak", name,
                  (long long)first.live))
        return;
    run(&second, scenario, user);
    RP_CHECK(first.requests == second.requests, "%s: %lld allocations, then %lld", name,
             (long long)first.requests, (long long)second.requests);
    int failures = 0; /* a few tell as much as thousands */
    for (int64_t n = 1; n <= first.requests && failures < 10; n = next(n, first.requests)) {
        failures += !check_run(name, n, n, scenario, user);
        failures += !check_run(name, n, INT64_MAX, scenario, user);
    }
}
