/* Drives the fuzz target where there is no libFuzzer.
 *
 *   fuzz_graph FILE...             each file is one input
 *   fuzz_graph --runs N [--seed S] N inputs, made from built-in ones by mutation
 *   fuzz_graph --corpus FOLDER     writes the built-in inputs, for libFuzzer to begin with */
#include "fuzz_graph.h"

#include "graphs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 16, MOST_FILE = 1 << 26 };

typedef struct input {
    uint8_t bytes[MOST_BYTES];
    size_t size;
} input;

/* ---- What inputs are made from --------------------------------------------------------------- */

#define GRAPH(values, nodes, outputs)                                                              \
    "{\"format\":\"reprise-graph\",\"version\":1,\"values\":[" values "],\"nodes\":[" nodes        \
    "],\"outputs\":[" outputs "]}"
#define STEPS(steps) "{\"format\":\"reprise-plan\",\"version\":1,\"steps\":[" steps "]}"
#define PERSISTENT "{\"name\":\"x\",\"bytes\":8,\"kind\":\"persistent\"}"
#define VALUE(bytes) "{\"bytes\":" bytes ",\"kind\":\"activation\"}"
#define VIEW(base) "{\"bytes\":0,\"kind\":\"activation\",\"alias_of\":" base "}"
#define NODE(phase, in, out, more)                                                                 \
    "{\"phase\":\"" phase "\",\"inputs\":[" in "],\"outputs\":[" out "],\"cost_ns\":7" more "}"

#define CHAIN                                                                                      \
    GRAPH(PERSISTENT "," VALUE("4") "," VALUE("2") "," VALUE("1"),                                 \
          NODE("forward", "0", "1", "") "," NODE("forward", "1", "2",                              \
                                                 "") "," NODE("backward", "1,2", "3", ""),         \
          "3")
#define EVERYTHING                                                                                 \
    "{\"format\":\"reprise-graph\",\"version\":1,\"name\":\"\\u00e9\",\"alignment\":64,"           \
    "\"values\":[" PERSISTENT                                                                      \
    "," VALUE("100") "," VIEW("1") "," VALUE("100") "," VALUE("64") "],\"nodes\":[" NODE(          \
        "forward", "0", "1",                                                                       \
        ",\"workspace_bytes\":9,\"recomputable\":true,\"mark\":"                                   \
        "\"keep\"") "," NODE("forward", "1", "2",                                                  \
                             ",\"block\":\"a\"") "," NODE("forwar"                                 \
                                                          "d",                                     \
                                                          "2", "3",                                \
                                                          ",\"inp"                                 \
                                                          "lace\""                                 \
                                                          ":[[3,"                                  \
                                                          "2]],"                                   \
                                                          "\"mark"                                 \
                                                          "\":"                                    \
                                                          "\"auto"                                 \
                                                          "\"") "," NODE("backward", "1,3", "4,0", \
                                                                         "") "],\"outputs\":[4]}"

/* Two strings: a graph, and a plan of it. */
static const char *const texts[][2] = {
    {CHAIN, STEPS("[\"run\",0],[\"run\",1],[\"drop\",1],[\"run\",0],[\"run\",2],[\"drop\",1]")},
    {CHAIN, STEPS("[\"run\",0],[\"offload\",1],[\"run\",1],[\"wait\",1],[\"fetch\",1],[\"wait\",1],"
                  "[\"run\",2]")},
    {CHAIN, "{\"format\":\"reprise-plan\",\"version\":1,\"peak_bytes\":15,\"live_peak_bytes\":15,"
            "\"budget_bytes\":15,\"steps\":[[\"run\",0],[\"run\",1],[\"run\",2]],"
            "\"offsets\":[[0,1,8],[1,2,12],[2,3,14],[0,0,0]]}"},
    {CHAIN, "\1\0\0\1\1\1\0\0\0\2"},
    {EVERYTHING, STEPS("[\"run\",0],[\"run\",1],[\"run\",2],[\"drop\",2],[\"run\",3]")},
    {EVERYTHING, ""},
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

/* The steps of row 3 hold zeros. */
static const uint8_t run_steps[] = {0, 0, 0, 1, 1, 1, 0, 0, 0, 2};

static void make_seed(uint32_t i, input *made) {
    made->size = strlen(texts[i][0]);
    memcpy(made->bytes, texts[i][0], made->size);
    made->bytes[made->size++] = 0;
    const bool binary = texts[i][1][0] == 1;
    const size_t length = binary ? sizeof run_steps : strlen(texts[i][1]);
    memcpy(made->bytes + made->size, binary ? (const void *)run_steps : texts[i][1], length);
    made->size += length;
}

/* ---- Mutations ------------------------------------------------------------------------------- */

static const char *const words[] = {
    "-1",
    "0",
    "1",
    "2",
    "3",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e400",
    "0.5",
    "null",
    "true",
    "[",
    "]",
    "{",
    "}",
    "\"",
    ",",
    ":",
    "[[[[[[[[",
    "\"run\"",
    "\"drop\"",
    "\"keep\"",
    "\"recompute\"",
    "\"persistent\"",
    "\"activation\"",
    "\"alias_of\":1",
    "\"inplace\":[[2,1]]",
    "\\ud800",
    "\xff",
    "\xc3",
    "\xed\xa0\x80",
};
enum { WORDS = sizeof words / sizeof words[0] };

/* Puts `length` bytes in the place of `cut`. */
static void splice(input *in, size_t at, size_t cut, const void *bytes, size_t length) {
    if (in->size - cut + length > MOST_BYTES)
        return;
    uint8_t copy[256];
    length = length < sizeof copy ? length : sizeof copy;
    memcpy(copy, bytes, length); /* which may be a part of the input */
    memmove(in->bytes + at + length, in->bytes + at + cut, in->size - at - cut);
    memcpy(in->bytes + at, copy, length);
    in->size = in->size - cut + length;
}

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

/* From the place on, the next number. */
static void replace_number(input *in, size_t at, rp_test_random *random) {
    size_t end;
    while (at < in->size && !is_digit(in->bytes[at]))
        at++;
    for (end = at; end < in->size && is_digit(in->bytes[end]);)
        end++;
    char small[16];
    const int length = snprintf(small, sizeof small, "%u", rp_test_random_below(random, 9));
    const char *word = words[rp_test_random_below(random, WORDS)];
    if (rp_test_random_below(random, 3) > 0)
        splice(in, at, end - at, small, (size_t)length);
    else
        splice(in, at, end - at, word, strlen(word));
}

/* Of what lies behind `begin`. */
static void mutate(input *in, size_t begin, rp_test_random *random) {
    begin = begin < in->size ? begin : 0;
    const size_t at = begin + rp_test_random_below(random, (uint32_t)(in->size - begin));
    const size_t left = in->size - at;
    const size_t some = 1 + rp_test_random_below(random, left < 40 ? (uint32_t)left : 40);
    const size_t from = rp_test_random_below(random, (uint32_t)in->size);
    const size_t piece = in->size - from < some ? in->size - from : some;
    const char *word = words[rp_test_random_below(random, WORDS)];
    const uint8_t byte = (uint8_t)rp_test_random_below(random, 256);
    switch (rp_test_random_below(random, 8)) {
    case 0:
        in->bytes[at] ^= (uint8_t)(1u << byte % 8);
        break;
    case 1:
        in->bytes[at] = byte;
        break;
    case 2:
        splice(in, at, some, "", 0);
        break;
    case 3:
        splice(in, at, 0, in->bytes + from, piece);
        break;
    case 4:
        splice(in, at, piece <= left ? piece : left, in->bytes + from, piece);
        break;
    case 5:
        splice(in, at, 0, word, strlen(word));
        break;
    default:
        replace_number(in, at, random);
    }
    if (in->size == 0)
        in->bytes[in->size++] = '{';
}

/* ---- Driving --------------------------------------------------------------------------------- */

static void drive(const uint8_t *bytes, size_t size, uint64_t *accepted) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        abort();
    memcpy(copy, bytes, size);
    *accepted += rp_fuzz_graph(copy, size);
    free(copy);
}

static int run_mutations(uint64_t runs, uint64_t seed) {
    static input in;
    rp_test_random random = {seed};
    uint64_t accepted = 0;
    for (uint32_t i = 0; i < TEXTS; i++) {
        make_seed(i, &in);
        uint64_t good = 0;
        drive(in.bytes, in.size, &good);
        if (good != 1)
            return fprintf(stderr, "fuzz_graph: built-in input %u is refused\n", i), 1;
    }
    for (uint64_t i = 0; i < runs; i++) {
        make_seed(rp_test_random_below(&random, TEXTS), &in);
        const bool plan_only = rp_test_random_below(&random, 3) == 0;
        const size_t begin = plan_only ? strlen((const char *)in.bytes) + 1 : 0;
        for (uint32_t k = 1 + rp_test_random_below(&random, 3); k-- > 0;)
            mutate(&in, begin, &random);
        drive(in.bytes, in.size, &accepted);
    }
    printf("fuzz_graph: %" PRIu64 " inputs, %" PRIu64 " of them with a graph\n", runs, accepted);
    if (runs >= 1000 && (accepted < runs / 20 || accepted > runs - runs / 20))
        return fprintf(stderr, "fuzz_graph: too one-sided to test much\n"), 1;
    return 0;
}

static int run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(MOST_FILE);
    if (file == NULL || bytes == NULL)
        return fprintf(stderr, "fuzz_graph: %s: %s\n", path, strerror(errno)), 1;
    const size_t size = fread(bytes, 1, MOST_FILE, file);
    uint64_t accepted = 0;
    fclose(file);
    drive(bytes, size, &accepted);
    free(bytes);
    printf("%s: %s\n", path, accepted ? "a graph" : "refused");
    return 0;
}

static int write_corpus(const char *folder) {
    static input in;
    for (uint32_t i = 0; i < TEXTS; i++) {
        char path[4096];
        make_seed(i, &in);
        snprintf(path, sizeof path, "%s/%u", folder, i);
        FILE *file = fopen(path, "wb");
        if (file == NULL || fwrite(in.bytes, 1, in.size, file) != in.size || fclose(file) != 0)
            return fprintf(stderr, "fuzz_graph: %s: %s\n", path, strerror(errno)), 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    uint64_t runs = 0, seed = 1;
    int status = argc > 1 ? 0 : 2;
    for (int i = 1; i < argc && status == 0; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--runs") == 0 && more)
            runs = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0 && more)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--corpus") == 0 && more)
            status = write_corpus(argv[++i]);
        else if (argv[i][0] == '-')
            status = 2;
        else
            status = run_file(argv[i]);
    }
    if (status == 2)
        fprintf(stderr, "usage: fuzz_graph FILE... | --runs N [--seed S] | --corpus FOLDER\n");
    return status == 0 && runs > 0 ? run_mutations(runs, seed) : status;
}
