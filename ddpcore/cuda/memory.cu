/* Memory of the CUDA device: freed blocks are kept by size class and handed out again, because
 * cudaMalloc and cudaFree wait for every kernel of the process, among them collectives that wait
 * for peers. Device blocks need no event between uses: their users are ordered on the default
 * stream and the zero-fill is enqueued there. Host blocks are reused once the default stream has
 * passed the point where they were freed. */
#include <cstring>

#include "ddpcore/cuda/state.cuh"

enum { SMALLEST_SHIFT = 9, SIZES_PER_OCTAVE = 4 };

struct ddp_cuda_block {
    void *data;
    enum ddp_space space;
    int size_class;
    cudaEvent_t freed; /* host blocks: after their last use */
    ddp_cuda_block *next;
};

/* Class 0 holds 512 bytes, class 4e + q (q = 1..4) holds 2^(9 + e) * (1 + q / 4). */
static size_t class_size_bytes(int size_class)
{
    size_t octave = static_cast<size_t>(1)
                    << (SMALLEST_SHIFT + (size_class - 1) / SIZES_PER_OCTAVE);

    DDP_ASSERT(size_class >= 0 && size_class < DDP_CUDA_SIZE_CLASSES);
    if (size_class == 0) {
        return static_cast<size_t>(1) << SMALLEST_SHIFT;
    }
    return octave +
           octave / SIZES_PER_OCTAVE * (static_cast<size_t>(size_class - 1) % SIZES_PER_OCTAVE + 1);
}

/* The smallest class that holds size_bytes; DDP_CUDA_SIZE_CLASSES if none does. */
static int class_of(size_t size_bytes)
{
    int size_class = 0;

    while (size_class < DDP_CUDA_SIZE_CLASSES && class_size_bytes(size_class) < size_bytes) {
        size_class++;
    }
    return size_class;
}

static ddp_cuda_block **slot_of(ddp_cuda_device *cuda, const void *data)
{
    /* Blocks are at least 512 bytes apart; the multiplier spreads regular distances. */
    uint64_t key = reinterpret_cast<uintptr_t>(data) >> SMALLEST_SHIFT;

    return &cuda->memory.live[(key * 0x9e3779b97f4a7c15u >> 32) % DDP_CUDA_TABLE_SLOTS];
}

static cudaError_t system_alloc(enum ddp_space space, size_t size_bytes, void **out)
{
    return space == DDP_SPACE_DEVICE
               ? cudaMalloc(out, size_bytes)
               : cudaHostAlloc(out, size_bytes, cudaHostAllocPortable | cudaHostAllocMapped);
}

static void release(ddp_cuda_device *cuda, ddp_cuda_block *block)
{
    if (block->data != NULL) {
        (void)(block->space == DDP_SPACE_DEVICE ? cudaFree(block->data)
                                                : cudaFreeHost(block->data));
    }
    if (block->freed != NULL) {
        (void)cudaEventDestroy(block->freed);
    }
    ddp_mem_free(cuda->base.mem, block);
}

/* Give every idle block of the space back to the system. */
static void release_idle(ddp_cuda_device *cuda, enum ddp_space space)
{
    for (int size_class = 0; size_class < DDP_CUDA_SIZE_CLASSES; size_class++) {
        ddp_cuda_block **list = &cuda->memory.idle[space][size_class];
        while (*list != NULL) {
            ddp_cuda_block *block = *list;
            *list = block->next;
            release(cuda, block);
        }
    }
}

/* *out: an idle block that nothing uses any more, NULL if there is none. */
static ddp_status take_idle(ddp_cuda_device *cuda, enum ddp_space space, int size_class,
                            ddp_cuda_block **out)
{
    *out = NULL;
    for (ddp_cuda_block **link = &cuda->memory.idle[space][size_class]; *link != NULL;
         link = &(*link)->next) {
        ddp_cuda_block *block = *link;
        if (space == DDP_SPACE_HOST) {
            cudaError_t error = cudaEventQuery(block->freed);
            if (error == cudaErrorNotReady) {
                continue;
            }
            DDP_TRY(ddp_cuda_check(cuda, error, "cudaEventQuery"));
        }
        *link = block->next;
        *out = block;
        return DDP_OK;
    }
    return DDP_OK;
}

/* The status that says that the space's memory is exhausted. */
static ddp_status exhausted(enum ddp_space space)
{
    return space == DDP_SPACE_DEVICE ? DDP_E_DEVICE_MEMORY : DDP_E_NOMEM;
}

/* Allocate the block's data from the system; if that is exhausted, again after giving back every
 * idle block. */
static ddp_status fill_block(ddp_cuda_device *cuda, ddp_cuda_block *block)
{
    const size_t size_bytes = class_size_bytes(block->size_class);
    cudaError_t error = system_alloc(block->space, size_bytes, &block->data);

    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        release_idle(cuda, block->space);
        error = system_alloc(block->space, size_bytes, &block->data);
    }
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return exhausted(block->space);
    }
    return ddp_cuda_check(cuda, error,
                          block->space == DDP_SPACE_DEVICE ? "cudaMalloc" : "cudaHostAlloc");
}

static ddp_status create_block(ddp_cuda_device *cuda, enum ddp_space space, int size_class,
                               ddp_cuda_block **out)
{
    ddp_cuda_block *block =
        static_cast<ddp_cuda_block *>(ddp_mem_array(cuda->base.mem, 1, sizeof(*block)));
    ddp_status status = DDP_OK;

    if (block == NULL) {
        return DDP_E_NOMEM;
    }
    block->space = space;
    block->size_class = size_class;
    if (space == DDP_SPACE_HOST) {
        status =
            ddp_cuda_check(cuda, cudaEventCreateWithFlags(&block->freed, cudaEventDisableTiming),
                           "cudaEventCreateWithFlags");
    }
    if (status == DDP_OK) {
        status = fill_block(cuda, block);
    }
    if (status != DDP_OK) {
        block->data = NULL;
        release(cuda, block);
        return status;
    }
    *out = block;
    return DDP_OK;
}

/* Without the zero-fill. */
static ddp_status alloc_raw(ddp_cuda_device *cuda, size_t size_bytes, enum ddp_space space,
                            void **out)
{
    int size_class = class_of(size_bytes);
    ddp_cuda_block *block;
    ddp_cuda_block **slot;

    *out = NULL;
    if (size_class == DDP_CUDA_SIZE_CLASSES) {
        return exhausted(space);
    }
    DDP_TRY(take_idle(cuda, space, size_class, &block));
    if (block == NULL) {
        DDP_TRY(create_block(cuda, space, size_class, &block));
    }
    DDP_ASSERT(block->space == space && class_size_bytes(block->size_class) >= size_bytes);
    slot = slot_of(cuda, block->data);
    block->next = *slot;
    *slot = block;
    *out = block->data;
    return DDP_OK;
}

/* On the default stream; other streams are put behind it by ddp_cuda_enter_stream. */
static ddp_status zero_fill(ddp_cuda_device *cuda, void *data, size_t size_bytes)
{
    CUDA_TRY(cuda, cudaMemsetAsync, data, 0, size_bytes, cuda->main.handle);
    CUDA_TRY(cuda, cudaEventRecord, cuda->memory.zeroed, cuda->main.handle);
    cuda->memory.zero_serial++;
    cuda->main.zero_serial = cuda->memory.zero_serial;
    return DDP_OK;
}

ddp_status ddp_cuda_alloc(struct ddp_device *device, size_t size_bytes, enum ddp_space space,
                          void **out)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    ddp_status status = DDP_OK;

    *out = NULL;
    if (space != DDP_SPACE_DEVICE && space != DDP_SPACE_HOST) {
        return DDP_E_INVALID;
    }
    DDP_TRY(ddp_cuda_enter(cuda));
    DDP_TRY(alloc_raw(cuda, size_bytes, space, out));
    if (size_bytes == 0) {
        return DDP_OK;
    }
    if (space == DDP_SPACE_HOST) {
        memset(*out, 0, size_bytes);
    } else {
        status = zero_fill(cuda, *out, size_bytes);
    }
    if (status != DDP_OK) {
        ddp_cuda_free(device, space, *out);
        *out = NULL;
    }
    return status;
}

void ddp_cuda_free(struct ddp_device *device, enum ddp_space space, void *data)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    ddp_cuda_block **link;
    ddp_cuda_block *block;

    if (data == NULL) {
        return;
    }
    for (link = slot_of(cuda, data); *link != NULL && (*link)->data != data;) {
        link = &(*link)->next;
    }
    block = *link;
    DDP_ASSERT(block != NULL && block->space == space);
    *link = block->next;
    if (space == DDP_SPACE_HOST && ddp_cuda_enter(cuda) == DDP_OK) {
        /* A failure shows again at the next query of any event. */
        (void)ddp_cuda_check(cuda, cudaEventRecord(block->freed, cuda->main.handle),
                             "cudaEventRecord");
    }
    block->next = cuda->memory.idle[space][block->size_class];
    cuda->memory.idle[space][block->size_class] = block;
}

ddp_status ddp_cuda_memory_init(ddp_cuda_device *cuda)
{
    CUDA_TRY(cuda, cudaEventCreateWithFlags, &cuda->memory.zeroed, cudaEventDisableTiming);
    return DDP_OK;
}

void ddp_cuda_memory_fini(ddp_cuda_device *cuda)
{
    for (int slot = 0; slot < DDP_CUDA_TABLE_SLOTS; slot++) {
        while (cuda->memory.live[slot] != NULL) {
            ddp_cuda_block *block = cuda->memory.live[slot];
            cuda->memory.live[slot] = block->next;
            release(cuda, block);
        }
    }
    release_idle(cuda, DDP_SPACE_DEVICE);
    release_idle(cuda, DDP_SPACE_HOST);
    if (cuda->memory.zeroed != NULL) {
        (void)cudaEventDestroy(cuda->memory.zeroed);
    }
}
