/* Device memory: one range of addresses in which each block has pages of its own, ends at a page
 * that nobody can touch, and is never where a freed one was before all addresses were used. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine.h"
#include "runtime.h"
#include "sanitizer.h"
#include "settings.h"

enum { ALIGNMENT = 256, PAGE = 4096 };
static const size_t range_bytes = (size_t)64 << 30;

/* Memory that is known, ordered by address. */
typedef struct span {
    char *address;
    size_t bytes;
    char *pages; /* of device memory: where they begin, and how many bytes they are */
    size_t page_bytes;
} span;

typedef struct spans {
    span *list;
    size_t count, capacity;
} spans;

static spans device, pinned;
static char *range;
static size_t range_used, live_bytes, reserved_bytes;
static int device_depth;

/* ---- Lists of blocks ------------------------------------------------------------------------- */

/* The first one that begins behind `address`. */
static size_t behind(const spans *s, const char *address) {
    size_t low = 0, high = s->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->list[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static span *find(const spans *s, const void *address) {
    const size_t i = behind(s, address);
    if (i == 0)
        return NULL;
    span *last = &s->list[i - 1];
    return (const char *)address <= last->address + last->bytes ? last : NULL;
}

static void insert(spans *s, span added) {
    const size_t i = behind(s, added.address);
    s->list = emulator_grow(s->list, s->count, &s->capacity, sizeof *s->list);
    memmove(&s->list[i + 1], &s->list[i], (s->count - i) * sizeof *s->list);
    s->list[i] = added;
    s->count++;
}

static void erase(spans *s, span *at) {
    const size_t i = (size_t)(at - s->list);
    memmove(at, at + 1, (s->count - i - 1) * sizeof *s->list);
    s->count--;
}

bool emulator_is_device(const void *address, size_t bytes) {
    const span *s = find(&device, address);
    return s != NULL && bytes <= s->bytes - (size_t)((const char *)address - s->address);
}

bool emulator_is_pinned(const void *address) {
    return find(&pinned, address) != NULL;
}

void emulator_check_pointer(const emulator_launch *launch, int argument, const void *pointer) {
    if (pointer == NULL || !emulator_settings_get()->pointers || find(&device, pointer) != NULL ||
        emulator_is_pinned(pointer))
        return;
    emulator_fail("%s:%d: kernel %s: argument %d, %p, is no memory of the device",
                  launch->place.file, launch->place.line, launch->kernel, argument, pointer);
}

/* ---- The guard ------------------------------------------------------------------------------- */

static void protect(const span *s, bool open) {
    if (mprotect(s->pages, s->page_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        emulator_fail("cannot protect %zu bytes", s->page_bytes);
}

static void protect_all(bool open) {
    for (size_t i = 0; i < device.count; i++)
        protect(&device.list[i], open);
}

void emulator_device_begin(void) {
    if (device_depth++ == 0 && emulator_settings_get()->guard)
        protect_all(true);
}

void emulator_device_end(void) {
    if (--device_depth == 0 && emulator_settings_get()->guard)
        protect_all(false);
}

/* ---- Allocating ------------------------------------------------------------------------------ */

static size_t round_to(size_t bytes, size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

/* Addresses that nobody has, in turn around the range; NULL: there are none. */
static char *take_pages(size_t bytes) {
    if (range == NULL) {
        range =
            mmap(NULL, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            emulator_fail("no addresses for %zu bytes of device memory", range_bytes);
    }
    for (int turn = 0; turn < 2; turn++) {
        while (bytes <= range_bytes - range_used) {
            char *pages = range + range_used;
            const size_t i = behind(&device, pages + bytes);
            const span *last = i > 0 ? &device.list[i - 1] : NULL;
            if (last == NULL || last->pages + last->page_bytes + PAGE <= pages) {
                range_used += bytes;
                return pages;
            }
            range_used = (size_t)(last->pages + last->page_bytes + PAGE - range);
        }
        range_used = 0;
    }
    return NULL;
}

cudaError_t cudaMalloc(void **address, size_t bytes) {
    const emulator_settings *settings = emulator_settings_get();
    *address = NULL;
    emulator_trap_install();
    const cudaError_t refused = emulator_refuse_in_capture();
    if (refused != cudaSuccess || bytes == 0)
        return refused;
    const size_t free_bytes = settings->memory_bytes - live_bytes - reserved_bytes;
    if (bytes > free_bytes || round_to(bytes, ALIGNMENT) > free_bytes)
        return emulator_error(cudaErrorMemoryAllocation);
    const size_t used = round_to(bytes, ALIGNMENT), page_bytes = round_to(used, PAGE);
    char *pages = take_pages(page_bytes + PAGE);
    if (pages == NULL)
        return emulator_error(cudaErrorMemoryAllocation);
    const span added = {pages + page_bytes - used, bytes, pages, page_bytes};
    protect(&added, true);
    __asan_unpoison_memory_region(pages, page_bytes);
    if (settings->fill) {
        emulator_quiet();
        memset(added.address, 0xFF, bytes);
        emulator_loud();
    }
    __asan_poison_memory_region(pages, page_bytes - used);
    __asan_poison_memory_region(added.address + bytes, used - bytes);
    insert(&device, added);
    if (device_depth == 0 && settings->guard)
        protect(&added, false);
    live_bytes += used;
    *address = added.address;
    return cudaSuccess;
}

cudaError_t cudaFree(void *address) {
    if (address == NULL)
        return cudaSuccess;
    const cudaError_t refused = emulator_refuse_in_capture();
    if (refused != cudaSuccess)
        return refused;
    emulator_drain_all(); /* as on a device: work may still need it */
    span *s = find(&device, address);
    if (s == NULL || s->address != (char *)address)
        return emulator_error(cudaErrorInvalidValue);
    madvise(s->pages, s->page_bytes, MADV_DONTNEED);
    protect(s, false);
    __asan_poison_memory_region(s->pages, s->page_bytes);
    live_bytes -= round_to(s->bytes, ALIGNMENT);
    erase(&device, s);
    return cudaSuccess;
}

void emulator_reserve(size_t bytes) {
    reserved_bytes += bytes;
}

void emulator_release(size_t bytes) {
    reserved_bytes -= bytes;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    *total_bytes = emulator_settings_get()->memory_bytes;
    *free_bytes = *total_bytes - live_bytes - reserved_bytes;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **address, size_t bytes) {
    *address = emulator_take(bytes);
    insert(&pinned, (span){*address, bytes, NULL, 0});
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    return cudaMallocHost(address, bytes);
}

cudaError_t cudaHostUnregister(void *address) {
    emulator_drain_all();
    span *s = find(&pinned, address);
    if (s == NULL || s->address != (char *)address)
        return emulator_error(cudaErrorHostMemoryNotRegistered);
    erase(&pinned, s);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *address) {
    if (address == NULL)
        return cudaSuccess;
    const cudaError_t error = cudaHostUnregister(address);
    if (error == cudaSuccess)
        free(address);
    return error;
}

cudaError_t cudaHostRegister(void *address, size_t bytes, unsigned flags) {
    (void)flags;
    if (emulator_is_pinned(address))
        return emulator_error(cudaErrorHostMemoryAlreadyRegistered);
    insert(&pinned, (span){address, bytes, NULL, 0});
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *address) {
    memset(attributes, 0, sizeof *attributes);
    attributes->type = emulator_is_device(address, 0) ? cudaMemoryTypeDevice
                       : emulator_is_pinned(address)  ? cudaMemoryTypeHost
                                                      : cudaMemoryTypeUnregistered;
    if (attributes->type == cudaMemoryTypeDevice)
        attributes->devicePointer = (void *)(uintptr_t)address;
    return cudaSuccess;
}

/* ---- Copying and filling --------------------------------------------------------------------- */

/* A copy of host memory that the device cannot reach takes its bytes with it. */
typedef struct copy {
    void *to;
    const void *from; /* NULL: the bytes behind this */
    size_t bytes;
} copy;

static void run_copy(const void *data) {
    const copy *c = data;
    memmove(c->to, c->from != NULL ? c->from : c + 1, c->bytes);
}

static cudaError_t submit_staged(cudaStream_t stream, void *to, const void *from, size_t bytes) {
    const copy c = {to, NULL, bytes};
    char *data = emulator_take(sizeof c + bytes);
    memcpy(data, &c, sizeof c);
    memcpy(data + sizeof c, from, bytes);
    const cudaError_t error = emulator_submit(stream, run_copy, data, sizeof c + bytes);
    free(data);
    return error;
}

static enum cudaMemcpyKind kind_of(const void *to, const void *from) {
    const bool to_device = emulator_is_device(to, 0), from_device = emulator_is_device(from, 0);
    return to_device     ? from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice
           : from_device ? cudaMemcpyDeviceToHost
                         : cudaMemcpyHostToHost;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    if (bytes == 0)
        return cudaSuccess;
    const enum cudaMemcpyKind real = kind_of(to, from);
    const bool to_device = real == cudaMemcpyHostToDevice || real == cudaMemcpyDeviceToDevice;
    const bool from_device = real == cudaMemcpyDeviceToHost || real == cudaMemcpyDeviceToDevice;
    if ((kind != cudaMemcpyDefault && kind != real) ||
        (to_device && !emulator_is_device(to, bytes)) ||
        (from_device && !emulator_is_device(from, bytes)))
        return emulator_error(cudaErrorInvalidValue);
    const bool capturing = emulator_is_capturing(stream);
    if (!from_device && !emulator_is_pinned(from) && !capturing)
        return submit_staged(stream, to, from, bytes);
    const copy c = {to, from, bytes};
    const cudaError_t error = emulator_submit(stream, run_copy, &c, sizeof c);
    if (error == cudaSuccess && !to_device && !emulator_is_pinned(to) && !capturing)
        emulator_drain(stream);
    return error;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    cudaError_t error = emulator_refuse_in_capture();
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    if (error == cudaSuccess)
        emulator_drain(NULL);
    return error;
}

typedef struct fill {
    void *to;
    int byte;
    size_t bytes;
} fill;

static void run_fill(const void *data) {
    const fill *f = data;
    memset(f->to, f->byte, f->bytes);
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream) {
    if (bytes == 0)
        return cudaSuccess;
    if (!emulator_is_device(to, bytes))
        return emulator_error(cudaErrorInvalidValue);
    const fill f = {to, byte, bytes};
    return emulator_submit(stream, run_fill, &f, sizeof f);
}

/* Does not wait, on a device, either. */
cudaError_t cudaMemset(void *to, int byte, size_t bytes) {
    const cudaError_t error = emulator_refuse_in_capture();
    return error != cudaSuccess ? error : cudaMemsetAsync(to, byte, bytes, NULL);
}
