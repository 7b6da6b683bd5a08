/* Settings, random numbers and the end. */
#include "settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

emulator_statistics emulator_counts;

static emulator_settings settings;
static uint64_t random_state;

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text != NULL && *text != 0 ? strtoull(text, NULL, 0) : otherwise;
}

static void tell_statistics(void) {
    const emulator_statistics *c = &emulator_counts;
    fprintf(stderr,
            "emulator: %llu kernels, %llu blocks, %llu threads, %llu switches, %llu products, "
            "%llu replays\n",
            (unsigned long long)c->kernels, (unsigned long long)c->blocks,
            (unsigned long long)c->threads, (unsigned long long)c->switches,
            (unsigned long long)c->products, (unsigned long long)c->replays);
}

const emulator_settings *emulator_settings_get(void) {
    static bool is_read;
    if (is_read)
        return &settings;
    is_read = true;
    settings = (emulator_settings){
        .seed = number("RP_EMULATOR_SEED", 0),
        .shuffle = number("RP_EMULATOR_SHUFFLE", 0) != 0,
        .defer = number("RP_EMULATOR_DEFER", 0) != 0,
        .guard = number("RP_EMULATOR_GUARD", 0) != 0,
        .fill = number("RP_EMULATOR_FILL", 1) != 0,
        .pointers = number("RP_EMULATOR_POINTERS", 1) != 0,
        .divergence = number("RP_EMULATOR_DIVERGENCE", 1) != 0,
        .statistics = number("RP_EMULATOR_STATISTICS", 0) != 0,
        .memory_bytes = (size_t)number("RP_EMULATOR_MEMORY", UINT64_C(16) << 30),
        .stack_bytes = (size_t)number("RP_EMULATOR_STACK", 65536),
    };
    random_state = (settings.seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    if (settings.statistics)
        atexit(tell_statistics);
    return &settings;
}

/* splitmix64. */
uint32_t emulator_random(uint32_t below) {
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(((z ^ z >> 31) >> 32) * below >> 32);
}

void emulator_order(uint32_t *order, uint32_t count, bool random) {
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; random && i > 1; i--) {
        const uint32_t j = emulator_random(i), t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

void *emulator_take(size_t bytes) {
    void *block = malloc(bytes > 0 ? bytes : 1);
    if (block == NULL)
        emulator_fail("no memory for %zu bytes", bytes);
    return block;
}

void *emulator_grow(void *list, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity)
        return list;
    *capacity = *capacity > 0 ? *capacity * 2 : 64;
    list = realloc(list, *capacity * size);
    if (list == NULL)
        emulator_fail("no memory for %zu elements", *capacity);
    return list;
}

void emulator_fail(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "emulator: %s\n", text);
    abort();
}
