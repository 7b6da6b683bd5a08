/* Backends, the choice of instruction set, data types and shapes. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "cpu/dispatch.h"
#include "define.h"
#include "unit.h"

/* The kernel says whether it can read a byte, without a signal. */
static bool is_readable(const void *address) {
    int ends[2];
    RP_REQUIRE(pipe(ends) == 0, "no pipe");
    const ssize_t written = write(ends[1], address, 1);
    const bool fault = written < 0 && errno == EFAULT;
    close(ends[0]);
    close(ends[1]);
    RP_CHECK(written == 1 || fault, "write: %s", strerror(errno));
    return !fault;
}

static void test_cpu_block_ends_at_a_guard_page(void) {
    static const size_t sizes[] = {1, 64, 100, 4032, 4096, 4097, 1000000, (size_t)8 << 20};
    rp_context *context = rp_test_context(1);
    const rp_backend *cpu = &rp_backend_cpu;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t used = (sizes[i] + 63) / 64 * 64;
        void *block = NULL;
        RP_REQUIRE_OK(context, cpu->allocate(context, NULL, sizes[i], &block));
        RP_CHECK_EQUAL((uintptr_t)block % (uintptr_t)cpu->alignment, 0);
        cpu->fill(NULL, block, 0xab, used);
        RP_CHECK(is_readable((uint8_t *)block + used - 1), "%zu bytes: the last one", sizes[i]);
        RP_CHECK(!is_readable((uint8_t *)block + used), "%zu bytes: no guard page", sizes[i]);
        cpu->release(NULL, block, sizes[i]);
        RP_CHECK(!is_readable(block), "%zu bytes: not released", sizes[i]);
    }
    rp_context_destroy(context);
}

static void test_cpu_block_of_nothing(void) {
    rp_context *context = rp_test_context(1);
    const rp_backend *cpu = &rp_backend_cpu;
    void *block = NULL;
    RP_REQUIRE_OK(context, cpu->allocate(context, NULL, 0, &block));
    RP_CHECK(block != NULL && !is_readable(block), "a block of nothing is readable");
    cpu->release(NULL, block, 0);
    cpu->release(NULL, NULL, 0);
    rp_context_destroy(context);
}

static void test_cpu_out_of_memory_is_a_status(void) {
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, (size_t)1 << 50};
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = NULL;
        RP_CHECK_STATUS(context, rp_backend_cpu.allocate(context, NULL, sizes[i], &block),
                        RP_OUT_OF_MEMORY);
        RP_CHECK_MESSAGE(context, "bytes");
    }
    rp_context_destroy(context);
}

static void test_cpu_copies_and_threads(void) {
    const rp_backend *cpu = &rp_backend_cpu;
    uint8_t from[5] = {1, 2, 3, 4, 5}, to[5] = {0}, back[5] = {0};
    cpu->write(NULL, to, from, 5);
    cpu->read(NULL, back, to, 5);
    RP_CHECK(memcmp(from, back, 5) == 0 && cpu->host_readable, "copies");
    cpu->write(NULL, NULL, NULL, 0);
    cpu->fill(NULL, NULL, 0, 0);
    const int before = omp_get_max_threads();
    const int outer = cpu->enter(3);
    RP_CHECK_EQUAL(omp_get_max_threads(), 3);
    const int inner = cpu->enter(1);
    RP_CHECK_EQUAL(omp_get_max_threads(), 1);
    cpu->leave(inner);
    RP_CHECK_EQUAL(omp_get_max_threads(), 3);
    cpu->leave(outer);
    RP_CHECK_EQUAL(omp_get_max_threads(), before);
}

/* Two OpenMP runtimes would be two pools of threads that wait for each other. OpenBLAS calls gcc's;
 * clang's answers to the same names, if it is found first. */
static void test_blas_and_kernels_share_an_openmp_runtime(void) {
    static const char *const names[] = {"omp_get_max_threads", "GOMP_parallel", "__kmpc_fork_call"};
    const char *library = NULL;
    int found = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        Dl_info info;
        void *const address = dlsym(RTLD_DEFAULT, names[i]);
        if (address == NULL || dladdr(address, &info) == 0)
            continue;
        found++;
        if (library == NULL)
            library = info.dli_fname;
        RP_CHECK(strcmp(library, info.dli_fname) == 0, "%s is in %s, others in %s", names[i],
                 info.dli_fname, library);
    }
    RP_CHECK(found >= 2, "%d of the names found", found);
}

/* An exbibyte: addresses can be told apart and compared, and nothing behind them is touched. */
static void test_null_backend_has_addresses_for_any_size(void) {
    rp_context *context = rp_test_context(1);
    const rp_backend *null = &rp_backend_null;
    const size_t bytes = (size_t)1 << 60;
    void *block = NULL;
    uint8_t host[4] = {1, 2, 3, 4};
    RP_REQUIRE_OK(context, null->allocate(context, NULL, bytes, &block));
    RP_CHECK(block != NULL && (uintptr_t)block % (uintptr_t)null->alignment == 0, "address");
    null->fill(NULL, block, 0xff, bytes);
    null->write(NULL, (char *)block + bytes - 4, host, 4);
    null->read(NULL, host, (char *)block + bytes - 4, 4);
    RP_CHECK(memcmp(host, (uint8_t[4]){0}, 4) == 0, "what is read is 0");
    RP_CHECK(null->kernels == NULL && !null->host_readable, "nothing runs");
    null->leave(null->enter(4));
    null->release(NULL, block, bytes);
    RP_CHECK_STATUS(context, null->allocate(context, NULL, SIZE_MAX, &block), RP_OUT_OF_MEMORY);
    rp_context_destroy(context);
}

static void test_backend_of_no_kind(void) {
    rp_context *context = rp_test_context(1);
    const rp_backend *backend = NULL;
    RP_CHECK_STATUS(context, rp_backend_find(context, (rp_backend_kind)99, &backend),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(context, "99 is no backend");
    RP_CHECK_OK(context, rp_backend_find(context, RP_BACKEND_CPU, &backend));
    RP_CHECK(backend == &rp_backend_cpu, "cpu");
    rp_context_destroy(context);
}

/* What stands in the way of a backend's library is said, with the file that was looked for. */
static void test_cuda_library_that_does_not_load(void) {
    static const struct {
        const char *path, *word;
    } cases[] = {{"/nowhere/libreprise_cuda.so", "/nowhere/libreprise_cuda.so: "},
                 {"/dev/null", "/dev/null: "},
                 {"libm.so.6", "has no rp_cuda_backend"}};
    const char *name = "REPRISE_CUDA_LIBRARY", *before = getenv(name);
    char *kept = before != NULL ? strdup(before) : NULL;
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const rp_backend *backend = NULL;
        RP_REQUIRE(setenv(name, cases[i].path, 1) == 0, "setenv");
        RP_CHECK_STATUS(context, rp_backend_find(context, RP_BACKEND_CUDA, &backend),
                        RP_UNSUPPORTED);
        RP_CHECK_MESSAGE(context, cases[i].word);
        RP_CHECK(backend == NULL, "%s gave a backend", cases[i].path);
    }
    RP_REQUIRE(kept != NULL ? setenv(name, kept, 1) == 0 : unsetenv(name) == 0, "setenv");
    free(kept);
    rp_context_destroy(context);
}

/* Where it is built it loads without a device; only a queue needs one. */
static void test_cuda_library_loads_without_a_device(void) {
    rp_context *context = rp_test_context(1);
    const rp_backend *cuda = NULL, *again = NULL;
    const rp_status status = rp_backend_find(context, RP_BACKEND_CUDA, &cuda);
    if (status == RP_OK) {
        rp_queue *queue = NULL;
        RP_CHECK_OK(context, rp_backend_find(context, RP_BACKEND_CUDA, &again));
        RP_CHECK(cuda == again, "loaded twice");
        RP_CHECK_STRING(cuda->name, "cuda");
        RP_CHECK_EQUAL(cuda->alignment, 256);
        RP_CHECK_EQUAL(cuda->step_bytes, sizeof(rp_step_state));
        const rp_status opened = rp_backend_open(cuda, context, NULL, &queue);
        RP_CHECK(opened == RP_OK || opened == RP_DEVICE_ERROR, "%s", rp_status_name(opened));
        if (opened != RP_OK)
            RP_CHECK_MESSAGE(context, "cuda: no device: ");
        rp_backend_close(cuda, queue);
    } else {
        RP_CHECK_EQUAL(status, RP_UNSUPPORTED);
        RP_CHECK_MESSAGE(context, "no libreprise_cuda.so: looked for ");
    }
    rp_context_destroy(context);
}

/* The best set comes first, the last one runs everywhere, and every kernel is there in each. */
static void test_instruction_sets(void) {
    size_t count = 0, first = 0;
    const rp_cpu_set *sets = rp_cpu_sets(&count);
    RP_REQUIRE(count > 0, "no set");
    RP_CHECK(sets[count - 1].is_available(), "%s does not run", sets[count - 1].name);
    while (!sets[first].is_available())
        first++;
    RP_CHECK(rp_cpu_kernels() == sets[first].kernels, "%s is not chosen", sets[first].name);
    for (size_t s = 0; s < count; s++) {
#define CHECK_KERNEL(id, name_)                                                                    \
    RP_CHECK(sets[s].kernels[id] != NULL, "%s has no " #name_, sets[s].name);
        RP_KERNEL_OP_LIST(CHECK_KERNEL)
#undef CHECK_KERNEL
        RP_CHECK(sets[s].kernels[RP_OP_VIEW] == NULL, "%s: a view has a kernel", sets[s].name);
    }
}

static void test_names_of_ops(void) {
#define CHECK_NAME(id, name_) RP_CHECK_STRING(rp_op_get(id)->name, #name_);
    RP_OP_LIST(CHECK_NAME)
#undef CHECK_NAME
}

static void test_dtypes(void) {
    RP_CHECK_EQUAL(rp_dtype_bytes(RP_F32), 4);
    RP_CHECK_EQUAL(rp_dtype_bytes(RP_BF16), 2);
    RP_CHECK_EQUAL(rp_dtype_bytes(RP_I32), 4);
    RP_CHECK_EQUAL(rp_dtype_bytes(RP_NO_DTYPE), 0);
    RP_CHECK_EQUAL(rp_dtype_bytes((rp_dtype)77), 0);
    RP_CHECK_STRING(rp_dtype_name(RP_BF16), "bf16");
    RP_CHECK_STRING(rp_dtype_name((rp_dtype)77), "unknown");
}

static void test_shapes(void) {
    const int64_t big = INT64_C(1) << 40;
    RP_CHECK_EQUAL(rp_shape_count(RP_SCALAR), 1);
    RP_CHECK_EQUAL(rp_shape_count(RP_SHAPE(2, 3, 4)), 24);
    RP_CHECK_EQUAL(rp_shape_count(RP_SHAPE(2, 0)), 0);
    RP_CHECK_EQUAL(rp_shape_count(RP_SHAPE(2, -1)), -1);
    RP_CHECK_EQUAL(rp_shape_count(RP_SHAPE(0, -1)), -1);
    RP_CHECK_EQUAL(rp_shape_count(RP_SHAPE(big, big)), -1);
    RP_CHECK_EQUAL(rp_shape_count(RP_SHAPE(big, big, 0)), 0);
    RP_CHECK_EQUAL(rp_shape_count(RP_SHAPE(INT64_MAX)), INT64_MAX);
    RP_CHECK_EQUAL(rp_shape_count((rp_shape){.rank = 7}), -1);
    RP_CHECK_EQUAL(rp_shape_count((rp_shape){.rank = -1}), -1);
    RP_CHECK(rp_shape_equal(RP_SHAPE(2, 3), RP_SHAPE(2, 3)), "equal");
    RP_CHECK(!rp_shape_equal(RP_SHAPE(2, 3), RP_SHAPE(3, 2)), "not equal");
    RP_CHECK(!rp_shape_equal(RP_SHAPE(2), RP_SHAPE(2, 1)), "another rank");
    RP_CHECK_EQUAL(rp_row_length(RP_SHAPE(2, 3, 4)), 4);
    RP_CHECK_EQUAL(rp_row_count(RP_SHAPE(2, 3, 4)), 6);
    RP_CHECK_EQUAL(rp_row_length(RP_SCALAR), 1);
    RP_CHECK_EQUAL(rp_row_count(RP_SCALAR), 1);
}

static void test_tensors_in_words(void) {
    char text[RP_SHAPE_TEXT];
    const int64_t long_number = INT64_MAX;
    const rp_tensor_info longest = {RP_BF16, RP_SHAPE(long_number, long_number, long_number,
                                                      long_number, long_number, long_number)};
    RP_CHECK_STRING(rp_tensor_text(&(rp_tensor_info){RP_F32, RP_SHAPE(2, 3)}, text), "f32 [2, 3]");
    RP_CHECK_STRING(rp_tensor_text(&(rp_tensor_info){RP_I32, RP_SCALAR}, text), "i32 []");
    RP_CHECK_STRING(rp_tensor_text(&(rp_tensor_info){RP_NO_DTYPE, RP_SCALAR}, text), "absent");
    RP_CHECK_EQUAL(strlen(rp_tensor_text(&longest, text)), 7 + 6 * 19 + 5 * 2);
}

static void test_cuts_of_reductions_depend_on_the_shape_alone(void) {
    RP_CHECK_EQUAL(rp_cut_make(0, 16, 32).count, 0);
    RP_CHECK_EQUAL(rp_cut_make(1, 16, 32).count, 1);
    RP_CHECK_EQUAL(rp_cut_make(17, 16, 32).count, 2);
    RP_CHECK_EQUAL(rp_cut_make(512, 16, 32).count, 32);
    RP_CHECK_EQUAL(rp_cut_make(513, 16, 32).length, 17);
    RP_CHECK_EQUAL(rp_cut_make(513, 16, 32).count, 31);
    RP_CHECK_EQUAL(rp_cut_make(INT64_MAX, 16, 32).count, 32);
    RP_CHECK_EQUAL(rp_cut_sum_leading(100, 1 << 20).count, 1);
    RP_CHECK_EQUAL(rp_cut_sum_leading(0, 1 << 20).count, 0);
}

/* What a gather and a view move is not what their slots hold. */
static void test_bytes_moved_and_flops(void) {
    const rp_tensor_info f32_6 = {RP_F32, RP_SHAPE(2, 3)};
    const rp_tensor_info table[] = {{RP_F32, RP_SHAPE(1000, 8)}, {RP_I32, RP_SHAPE(5)}};
    rp_tensor_info y[] = {f32_6, {RP_NO_DTYPE, RP_SCALAR}}, rows = {RP_F32, RP_SHAPE(5, 8)};
    const rp_op_call add = {(rp_tensor_info[]){f32_6, f32_6}, 2, y, 2, NULL};
    const rp_op_call gather = {table, 2, &rows, 1, NULL};
    RP_CHECK_EQUAL(rp_op_bytes_moved(RP_OP_ADD, &add), 72);
    RP_CHECK_EQUAL(rp_op_flops(RP_OP_ADD, &add), 6);
    RP_CHECK_EQUAL(rp_op_bytes_moved(RP_OP_EMBEDDING, &gather), 2 * 160 + 20);
    RP_CHECK_EQUAL(rp_op_flops(RP_OP_EMBEDDING, &gather), 0);
    RP_CHECK_EQUAL(rp_op_bytes_moved(RP_OP_VIEW, &add), 0);
    RP_CHECK_EQUAL(rp_op_flops(RP_OP_VIEW, &add), 0);
}

static const rp_test tests[] = {
    RP_TEST(test_cpu_block_ends_at_a_guard_page),
    RP_TEST(test_cpu_block_of_nothing),
    RP_TEST(test_cpu_out_of_memory_is_a_status),
    RP_TEST(test_cpu_copies_and_threads),
    RP_TEST(test_blas_and_kernels_share_an_openmp_runtime),
    RP_TEST(test_null_backend_has_addresses_for_any_size),
    RP_TEST(test_backend_of_no_kind),
    RP_TEST(test_cuda_library_that_does_not_load),
    RP_TEST(test_cuda_library_loads_without_a_device),
    RP_TEST(test_instruction_sets),
    RP_TEST(test_names_of_ops),
    RP_TEST(test_dtypes),
    RP_TEST(test_shapes),
    RP_TEST(test_tensors_in_words),
    RP_TEST(test_cuts_of_reductions_depend_on_the_shape_alone),
    RP_TEST(test_bytes_moved_and_flops),
};
RP_SUITE(backend, tests)
