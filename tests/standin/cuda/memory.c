/* CUDA runtime stand-in, for tests on machines without a GPU; nothing here is a GPU result. Memory.
 *
 * Device memory is one mapping, first fit. While no stream works on it, it is PROT_NONE, so that a
 * host that reads what it forgot to copy crashes. Fresh and freed memory holds NaNs. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/standin/cuda/state.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size_bytes)   ((void)(data), (void)(size_bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, size_bytes) ((void)(data), (void)(size_bytes))
#endif

enum {
    ALIGN_BYTES = 512,
    RED_ZONE_BYTES = 512, /* so that an overrun meets no neighbour */
    PAGE_BYTES = 4096,
    /* The arena grows by as much, in large pages where the system has them: it is opened and closed
     * around each piece of work, which takes a time for each page. */
    ARENA_PAGE_BYTES = 2 << 20
};

/* A signalling NaN as fp32, as bf16 and as fp16. */
static const uint32_t nan_pattern = UINT32_C(0x7fa07fa0);

struct block { /* an allocation, in order of address */
    struct block *next;
    size_t offset_bytes, size_bytes;
};

struct pin { /* host memory that the device knows */
    struct pin *next;
    unsigned char *data;
    size_t size_bytes;
    bool is_registered; /* else it is ours to free */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *arena;   /* NULL until the first allocation */
static size_t arena_top_bytes; /* pages below have been used */
static struct block *blocks;
static struct pin *pins;
static uint64_t open_count, allocation_count;

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static void protect(size_t from_bytes, size_t to_bytes, bool is_open)
{
    if (to_bytes > from_bytes && mprotect(arena + from_bytes, to_bytes - from_bytes,
                                          is_open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
        abort();
    }
}

/* The lock is held in these two. */
static void open_locked(void)
{
    if (open_count++ == 0) {
        protect(0, arena_top_bytes, true);
    }
}

static void close_locked(void)
{
    if (--open_count == 0) {
        protect(0, arena_top_bytes, false);
    }
}

void standin_memory_open(void)
{
    if (standin_device.is_guarded) {
        pthread_mutex_lock(&lock);
        open_locked();
        pthread_mutex_unlock(&lock);
    }
}

void standin_memory_close(void)
{
    if (standin_device.is_guarded) {
        pthread_mutex_lock(&lock);
        close_locked();
        pthread_mutex_unlock(&lock);
    }
}

static void fill(unsigned char *data, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i += sizeof(nan_pattern)) {
        size_t rest = size_bytes - i;
        memcpy(data + i, &nan_pattern, rest < sizeof(nan_pattern) ? rest : sizeof(nan_pattern));
    }
}

/* Pages that are used for the first time. */
static void arena_grow(size_t end_bytes)
{
    size_t top_bytes = round_up(end_bytes, ARENA_PAGE_BYTES);

    if (top_bytes > arena_top_bytes) {
        protect(arena_top_bytes, top_bytes, open_count > 0);
        ASAN_POISON_MEMORY_REGION(arena + arena_top_bytes, top_bytes - arena_top_bytes);
        arena_top_bytes = top_bytes;
    }
}

/* The first gap of size_bytes, or NULL. *link is where the block belongs. */
static struct block *block_create(size_t size_bytes)
{
    size_t offset_bytes = 0;
    struct block **link = &blocks;
    struct block *block;

    while (*link != NULL && ((*link)->offset_bytes < offset_bytes ||
                             (*link)->offset_bytes - offset_bytes < size_bytes + RED_ZONE_BYTES)) {
        offset_bytes =
            round_up((*link)->offset_bytes + (*link)->size_bytes + RED_ZONE_BYTES, ALIGN_BYTES);
        link = &(*link)->next;
    }
    if (size_bytes > standin_device.memory_bytes ||
        offset_bytes > standin_device.memory_bytes - size_bytes) {
        return NULL;
    }
    block = malloc(sizeof(*block));
    if (block != NULL) {
        *block = (struct block){*link, offset_bytes, size_bytes};
        *link = block;
    }
    return block;
}

static bool arena_start(void)
{
    if (arena == NULL) {
        size_t size_bytes = round_up(standin_device.memory_bytes, ARENA_PAGE_BYTES);
        void *data = mmap(NULL, size_bytes + ARENA_PAGE_BYTES, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED) {
            return false;
        }
        arena = (unsigned char *)round_up((uintptr_t)data, ARENA_PAGE_BYTES);
        (void)madvise(arena, size_bytes, MADV_HUGEPAGE); /* refused: small pages do as well */
        open_count = standin_device.is_guarded ? 0 : 1;
    }
    return true;
}

/* Every allocation is counted; the environment can make them fail from a given number on. */
static bool may_allocate(void)
{
    allocation_count++;
    return standin_device.failing_allocation == 0 ||
           allocation_count < standin_device.failing_allocation;
}

cudaError_t cudaMalloc(void **out, size_t size_bytes)
{
    cudaError_t error = standin_enter();
    struct block *block = NULL;

    *out = NULL;
    if (error != cudaSuccess || size_bytes == 0) {
        return standin_leave(error);
    }
    /* "Implicit Synchronization" in CUDA's programming guide: allocations may wait for kernels. */
    (void)standin_device_drain();
    pthread_mutex_lock(&lock);
    if (may_allocate() && arena_start()) {
        block = block_create(size_bytes);
    }
    if (block != NULL) {
        open_locked();
        arena_grow(block->offset_bytes + size_bytes);
        *out = arena + block->offset_bytes;
        ASAN_UNPOISON_MEMORY_REGION(*out, size_bytes);
        fill(*out, size_bytes);
        close_locked();
    }
    pthread_mutex_unlock(&lock);
    return standin_leave(block != NULL ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *data)
{
    cudaError_t error = standin_enter();
    struct block **link = &blocks;
    struct block *block;

    if (error == cudaErrorInitializationError || data == NULL) {
        return standin_leave(error);
    }
    (void)standin_device_drain();
    pthread_mutex_lock(&lock);
    while (*link != NULL && arena + (*link)->offset_bytes != (unsigned char *)data) {
        link = &(*link)->next;
    }
    block = *link;
    if (block != NULL) {
        *link = block->next;
        open_locked();
        fill(data, block->size_bytes);
        close_locked();
        ASAN_POISON_MEMORY_REGION(data, block->size_bytes);
        free(block);
    } else if (error == cudaSuccess) {
        error = cudaErrorInvalidValue;
    }
    pthread_mutex_unlock(&lock);
    return standin_leave(error);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cudaError_t error = standin_enter();
    struct ddp_standin_report report;

    standin_memory_report(&report);
    *total_bytes = standin_device.memory_bytes;
    *free_bytes = standin_device.memory_bytes - report.device_bytes;
    return standin_leave(error);
}

/* The lock is held. The link of the pin that holds part of the range, or of none. */
static struct pin **pin_find(const unsigned char *data, size_t size_bytes)
{
    struct pin **link = &pins;

    while (*link != NULL &&
           ((*link)->data + (*link)->size_bytes <= data || data + size_bytes <= (*link)->data)) {
        link = &(*link)->next;
    }
    return link;
}

static cudaError_t pin_add(unsigned char *data, size_t size_bytes, bool is_registered)
{
    struct pin *pin = malloc(sizeof(*pin));
    cudaError_t error = cudaSuccess;

    if (pin == NULL) {
        return cudaErrorMemoryAllocation;
    }
    pthread_mutex_lock(&lock);
    if (*pin_find(data, size_bytes) != NULL) {
        error = cudaErrorHostMemoryAlreadyRegistered;
        free(pin);
    } else {
        *pin = (struct pin){pins, data, size_bytes, is_registered};
        pins = pin;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static cudaError_t pin_remove(unsigned char *data, bool is_registered, cudaError_t unknown)
{
    cudaError_t error = standin_enter();
    struct pin **link, *pin;

    if (error == cudaErrorInitializationError) {
        return error;
    }
    (void)standin_device_drain();
    pthread_mutex_lock(&lock);
    link = pin_find(data, 1);
    pin = *link;
    if (pin != NULL && pin->data == data && pin->is_registered == is_registered) {
        *link = pin->next;
        if (!is_registered) {
            free(data);
        }
        free(pin);
    } else if (error == cudaSuccess) {
        error = unknown;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaHostAlloc(void **out, size_t size_bytes, unsigned flags)
{
    cudaError_t error = standin_enter();
    bool is_allowed;

    *out = NULL;
    if (error == cudaSuccess &&
        (flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped)) != 0) {
        error = cudaErrorInvalidValue;
    }
    if (error != cudaSuccess || size_bytes == 0) {
        return standin_leave(error);
    }
    (void)standin_device_drain();
    pthread_mutex_lock(&lock);
    is_allowed = may_allocate();
    pthread_mutex_unlock(&lock);
    if (!is_allowed || posix_memalign(out, PAGE_BYTES, size_bytes) != 0) {
        *out = NULL;
        return standin_leave(cudaErrorMemoryAllocation);
    }
    fill(*out, size_bytes);
    error = pin_add(*out, size_bytes, false);
    if (error != cudaSuccess) {
        free(*out);
        *out = NULL;
    }
    return standin_leave(error);
}

cudaError_t cudaFreeHost(void *data)
{
    return data == NULL ? cudaSuccess
                        : standin_leave(pin_remove(data, false, cudaErrorInvalidValue));
}

cudaError_t cudaHostRegister(void *data, size_t size_bytes, unsigned flags)
{
    cudaError_t error = standin_enter();

    if (error == cudaSuccess &&
        (data == NULL || size_bytes == 0 ||
         (flags & ~(unsigned)(cudaHostRegisterPortable | cudaHostRegisterMapped)) != 0)) {
        error = cudaErrorInvalidValue;
    }
    if (error == cudaSuccess) {
        error = pin_add(data, size_bytes, true);
    }
    return standin_leave(error);
}

cudaError_t cudaHostUnregister(void *data)
{
    return standin_leave(pin_remove(data, true, cudaErrorHostMemoryNotRegistered));
}

cudaError_t cudaHostGetDevicePointer(void **out, void *data, unsigned flags)
{
    cudaError_t error = standin_enter();

    *out = NULL;
    if (error == cudaSuccess && (flags != 0 || standin_memory_place(data, 1) != STANDIN_PINNED)) {
        error = cudaErrorInvalidValue;
    }
    if (error == cudaSuccess) {
        *out = data;
    }
    return standin_leave(error);
}

enum standin_place standin_memory_place(const void *data, size_t size_bytes)
{
    const unsigned char *from = data;
    enum standin_place place = STANDIN_PAGEABLE;

    pthread_mutex_lock(&lock);
    if (arena != NULL && from >= arena && from < arena + standin_device.memory_bytes) {
        size_t offset_bytes = (size_t)(from - arena);

        place = STANDIN_OUTSIDE;
        for (const struct block *block = blocks; block != NULL; block = block->next) {
            if (offset_bytes >= block->offset_bytes &&
                offset_bytes - block->offset_bytes <= block->size_bytes &&
                size_bytes <= block->size_bytes - (offset_bytes - block->offset_bytes)) {
                place = STANDIN_DEVICE;
            }
        }
    } else {
        const struct pin *pin = *pin_find(from, size_bytes);

        if (pin != NULL && from >= pin->data && from + size_bytes <= pin->data + pin->size_bytes) {
            place = STANDIN_PINNED;
        }
    }
    pthread_mutex_unlock(&lock);
    return place;
}

void standin_memory_report(struct ddp_standin_report *out)
{
    out->device_count = out->device_bytes = out->pinned_count = out->registered_count = 0;
    pthread_mutex_lock(&lock);
    for (const struct block *block = blocks; block != NULL; block = block->next) {
        out->device_count++;
        out->device_bytes += block->size_bytes;
    }
    for (const struct pin *pin = pins; pin != NULL; pin = pin->next) {
        out->pinned_count += pin->is_registered ? 0 : 1;
        out->registered_count += pin->is_registered ? 1 : 0;
    }
    pthread_mutex_unlock(&lock);
}
