/* Fibers on ucontext. Stacks are mapped with a guard page below. A fiber may be destroyed where it
 * stands: a simulated rank that is killed never runs again. Sanitizers are told of every switch,
 * or they would take one stack for another. One thread only. */
#include "harness/task/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

struct harness_fiber {
    ucontext_t own;
    ucontext_t resumer;
    void (*entry)(void *context);
    void *context;
    char *mapping; /* guard page, then stack */
    size_t mapping_bytes;
    char *stack;
    size_t stack_bytes;
    bool is_done;
#if defined(__SANITIZE_ADDRESS__)
    void *own_fake_stack, *resumer_fake_stack;
    const void *resumer_stack;
    size_t resumer_stack_bytes;
#endif
#if defined(__SANITIZE_THREAD__)
    void *own_tsan, *resumer_tsan;
#endif
};

/* Announce, on the resumer's stack, that the fiber's stack comes next. */
static void announce_resume(struct harness_fiber *fiber)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fiber->resumer_fake_stack, fiber->stack, fiber->stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    fiber->resumer_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->own_tsan, 0);
#endif
    (void)fiber;
}

static void finish_resume(struct harness_fiber *fiber)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fiber->own_fake_stack, &fiber->resumer_stack,
                                    &fiber->resumer_stack_bytes);
#endif
    (void)fiber;
}

static void announce_yield(struct harness_fiber *fiber)
{
#if defined(__SANITIZE_ADDRESS__)
    /* NULL: this stack is left for good, and its fake frames with it. */
    __sanitizer_start_switch_fiber(fiber->is_done ? NULL : &fiber->own_fake_stack,
                                   fiber->resumer_stack, fiber->resumer_stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(fiber->resumer_tsan, 0);
#endif
    (void)fiber;
}

static void finish_yield(struct harness_fiber *fiber)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fiber->resumer_fake_stack, NULL, NULL);
#endif
    (void)fiber;
}

/* makecontext passes ints only: the pointer travels as two halves. */
static void fiber_main(unsigned int high, unsigned int low)
{
    uintptr_t bits = ((uintptr_t)high << 32) | (uintptr_t)low;
    struct harness_fiber *fiber = (struct harness_fiber *)bits;

    finish_resume(fiber);
    fiber->entry(fiber->context);
    fiber->is_done = true;
    harness_fiber_yield(fiber);
    DDP_ASSERT(false);
}

ddp_status harness_fiber_create(size_t stack_bytes, void (*entry)(void *context), void *context,
                                struct harness_fiber **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct harness_fiber *fiber = calloc(1, sizeof *fiber);
    uintptr_t bits = (uintptr_t)fiber;

    if (fiber == NULL) {
        return DDP_E_NOMEM;
    }
    fiber->entry = entry;
    fiber->context = context;
    fiber->stack_bytes = (stack_bytes + page - 1) / page * page;
    fiber->mapping_bytes = fiber->stack_bytes + page;
    fiber->mapping = mmap(NULL, fiber->mapping_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (fiber->mapping == MAP_FAILED) {
        free(fiber);
        return DDP_E_NOMEM;
    }
    fiber->stack = fiber->mapping + page;
    if (mprotect(fiber->mapping, page, PROT_NONE) != 0 || getcontext(&fiber->own) != 0) {
        (void)munmap(fiber->mapping, fiber->mapping_bytes);
        free(fiber);
        return DDP_E_SYSTEM;
    }
    fiber->own.uc_stack.ss_sp = fiber->stack;
    fiber->own.uc_stack.ss_size = fiber->stack_bytes;
    fiber->own.uc_link = NULL;
    makecontext(&fiber->own, (void (*)(void))fiber_main, 2, (unsigned int)(bits >> 32),
                (unsigned int)(bits & UINT32_MAX));
#if defined(__SANITIZE_THREAD__)
    fiber->own_tsan = __tsan_create_fiber(0);
#endif
    *out = fiber;
    return DDP_OK;
}

void harness_fiber_resume(struct harness_fiber *fiber)
{
    int result;

    DDP_ASSERT(!fiber->is_done);
    announce_resume(fiber);
    result = swapcontext(&fiber->resumer, &fiber->own);
    DDP_ASSERT(result == 0);
    finish_yield(fiber);
}

void harness_fiber_yield(struct harness_fiber *fiber)
{
    int result;

    announce_yield(fiber);
    result = swapcontext(&fiber->own, &fiber->resumer);
    DDP_ASSERT(result == 0);
    finish_resume(fiber);
}

bool harness_fiber_is_done(const struct harness_fiber *fiber)
{
    return fiber->is_done;
}

void harness_fiber_destroy(struct harness_fiber *fiber)
{
    if (fiber == NULL) {
        return;
    }
#if defined(__SANITIZE_ADDRESS__)
    /* Dropped frames left redzones behind; the next mapping here must not inherit them. */
    __asan_unpoison_memory_region(fiber->mapping, fiber->mapping_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(fiber->own_tsan);
#endif
    (void)munmap(fiber->mapping, fiber->mapping_bytes);
    free(fiber);
}
