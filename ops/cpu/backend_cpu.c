/* The CPU backend: memory from mmap with a guard page, kernels by instruction set, threads of
 * OpenMP. */
#include <cblas.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "backend.h"
#include "cpu/dispatch.h"

enum { ALIGNMENT = 64 };

/* A block lies at the end of its pages, so that its last byte is the last one before the guard
 * page: one element too far faults. Only its start is then less aligned than a page. */
typedef struct placement {
    size_t used;  /* bytes of the block, rounded up to ALIGNMENT */
    size_t pages; /* the same, rounded up to pages */
    size_t guard; /* bytes of the guard page */
} placement;

static bool place(size_t bytes, placement *place) {
    const long page = sysconf(_SC_PAGESIZE);
    place->guard = page > 0 ? (size_t)page : 4096;
    if (bytes > SIZE_MAX / 2)
        return false;
    place->used = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    place->pages = (place->used + place->guard - 1) / place->guard * place->guard;
    return true;
}

static rp_status cpu_allocate(rp_context *context, rp_queue *queue, size_t bytes, void **block) {
    placement p;
    (void)queue;
    if (!place(bytes, &p))
        return rp_fail(context, RP_OUT_OF_MEMORY, "out of memory: %zu bytes of tensors", bytes);
    uint8_t *base =
        mmap(NULL, p.pages + p.guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return rp_fail(context, RP_OUT_OF_MEMORY, "out of memory: %zu bytes of tensors", bytes);
    if (mprotect(base + p.pages, p.guard, PROT_NONE) != 0) {
        munmap(base, p.pages + p.guard);
        return rp_fail(context, RP_OUT_OF_MEMORY, "out of memory: no guard page behind %zu bytes",
                       bytes);
    }
#ifdef MADV_HUGEPAGE
    /* A third more bandwidth where pages are walked twice (virtual machines). A wish: may fail. */
    (void)madvise(base, p.pages, MADV_HUGEPAGE);
#endif
    *block = base + (p.pages - p.used);
    return RP_OK;
}

static void cpu_release(rp_queue *queue, void *block, size_t bytes) {
    placement p;
    (void)queue;
    if (block != NULL && place(bytes, &p))
        munmap((uint8_t *)block - (p.pages - p.used), p.pages + p.guard);
}

static rp_status cpu_copy(rp_queue *queue, void *destination, const void *source, size_t bytes) {
    (void)queue;
    if (bytes > 0)
        memcpy(destination, source, bytes);
    return RP_OK;
}

static rp_status cpu_fill(rp_queue *queue, void *destination, uint8_t byte, size_t bytes) {
    (void)queue;
    if (bytes > 0)
        memset(destination, byte, bytes);
    return RP_OK;
}

/* Debian's OpenMP build of OpenBLAS takes its number of threads from omp_get_max_threads, as our
 * kernels do from their launch: one pool for both. */
static int cpu_enter(int threads) {
#ifdef _OPENMP
    const int previous = omp_get_max_threads();
    omp_set_num_threads(threads);
    return previous;
#else
    return threads;
#endif
}

static void cpu_leave(int previous) {
#ifdef _OPENMP
    omp_set_num_threads(previous);
#else
    (void)previous;
#endif
}

/* A product that is large enough for the BLAS to take its buffers and all threads. */
static void cpu_warm_up(rp_context *context, rp_queue *queue, int threads) {
    enum { SIZE = 128, BYTES = SIZE * SIZE * (int)sizeof(float) };
    void *block = NULL;
    if (cpu_allocate(context, queue, 3 * BYTES, &block) != RP_OK)
        return;
    float *a = block, *b = a + SIZE * SIZE, *c = b + SIZE * SIZE;
    const int previous = cpu_enter(threads);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIZE, SIZE, SIZE, 1.0f, a, SIZE, b, SIZE,
                0.0f, c, SIZE);
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; i++)
        c[i] = 0.0f;
    cpu_leave(previous);
    cpu_release(queue, block, 3 * BYTES);
}

/* The line "KEY: value" of a text of lines, or nothing. */
static void find_value(const char *text, const char *key, char *value, size_t bytes) {
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && colon != NULL && colon[1] == ' ') {
            snprintf(value, bytes, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            return;
        }
    }
}

static void cpu_describe(int threads, rp_backend_text *text) {
    char info[4096];
    const int file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    const ssize_t length = file >= 0 ? read(file, info, sizeof info - 1) : -1;
    snprintf(text->device, sizeof text->device, "cpu"); /* where the system does not tell */
    if (file >= 0)
        close(file);
    if (length > 0) {
        info[length] = 0;
        find_value(info, "model name", text->device, sizeof text->device);
    }
    snprintf(text->machine, sizeof text->machine, "%s, %s, %d thread%s", text->device,
             rp_cpu_best_set()->name, threads, threads == 1 ? "" : "s");
    snprintf(text->libraries, sizeof text->libraries, "reprise %s, %.200s", RP_VERSION,
             openblas_get_config());
}

const rp_backend rp_backend_cpu = {
    .name = "cpu",
    .alignment = ALIGNMENT,
    .workspace = rp_op_workspace,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .write = cpu_copy,
    .read = cpu_copy,
    .fill = cpu_fill,
    .host_readable = true,
    .enter = cpu_enter,
    .leave = cpu_leave,
    .warm_up = cpu_warm_up,
    .describe = cpu_describe,
    .kernels = rp_cpu_kernels,
};
