/* Coroutines of the CUDA runtime stand-in, for tests on machines without a GPU; nothing here is a
 * GPU result. ucontext makes the stacks; the sanitizers are told of every switch. */
#include "tests/standin/cuda/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

enum {
    GUARD_BYTES = 4096,
#ifdef __SANITIZE_ADDRESS__
    STACK_BYTES = 256 * 1024 /* frames are larger */
#else
    STACK_BYTES = 64 * 1024
#endif
};

struct standin_fiber {
    ucontext_t context;
    struct standin_fiber_home *home;
    void (*body)(void *argument);
    void *argument;
    unsigned char *mapping; /* a guard page, then the stack */
    void *thread;           /* what ThreadSanitizer takes the fiber for */
    void *fake_stack, *home_fake_stack;
};

static void switch_in(struct standin_fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &fiber->home->stack,
                                    &fiber->home->stack_bytes);
#else
    (void)fiber;
#endif
}

void standin_fiber_leave(struct standin_fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fiber->fake_stack, fiber->home->stack,
                                   fiber->home->stack_bytes);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(fiber->home->thread, 0);
#endif
    swapcontext(&fiber->context, &fiber->home->context);
    switch_in(fiber);
}

void standin_fiber_enter(struct standin_fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fiber->home_fake_stack, fiber->mapping + GUARD_BYTES,
                                   STACK_BYTES);
#endif
#ifdef __SANITIZE_THREAD__
    fiber->home->thread = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->thread, 0);
#endif
    swapcontext(&fiber->home->context, &fiber->context);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber->home_fake_stack, NULL, NULL);
#endif
}

/* makecontext hands over ints only, so the pointer comes in two. */
static void fiber_main(unsigned high, unsigned low)
{
    struct standin_fiber *fiber =
        (struct standin_fiber *)(uintptr_t)((uint64_t)high << 32 | (uint64_t)low);

    switch_in(fiber);
    for (;;) {
        fiber->body(fiber->argument);
        standin_fiber_leave(fiber);
    }
}

static unsigned char *stack_map(void)
{
    void *mapping = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mapping == MAP_FAILED) {
        return NULL;
    }
    if (mprotect(mapping, GUARD_BYTES, PROT_NONE) != 0) {
        munmap(mapping, GUARD_BYTES + STACK_BYTES);
        return NULL;
    }
    return mapping;
}

/* getcontext may return twice, so nothing else lives in this frame. */
static void context_init(struct standin_fiber *fiber)
{
    if (getcontext(&fiber->context) != 0) {
        abort();
    }
    fiber->context.uc_stack.ss_sp = fiber->mapping + GUARD_BYTES;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
}

struct standin_fiber *standin_fiber_create(struct standin_fiber_home *home,
                                           void (*body)(void *argument), void *argument)
{
    struct standin_fiber *fiber = calloc(1, sizeof(*fiber));
    uint64_t bits = (uint64_t)(uintptr_t)fiber;

    if (fiber == NULL) {
        return NULL;
    }
    fiber->mapping = stack_map();
    if (fiber->mapping == NULL) {
        free(fiber);
        return NULL;
    }
    fiber->home = home;
    fiber->body = body;
    fiber->argument = argument;
    context_init(fiber);
    makecontext(&fiber->context, (void (*)(void))fiber_main, 2, (unsigned)(bits >> 32),
                (unsigned)bits);
#ifdef __SANITIZE_THREAD__
    fiber->thread = __tsan_create_fiber(0);
#endif
    return fiber;
}

void standin_fiber_destroy(struct standin_fiber *fiber)
{
#ifdef __SANITIZE_THREAD__
    __tsan_destroy_fiber(fiber->thread);
#endif
#ifdef __SANITIZE_ADDRESS__
    /* The frames of a body that never finished. */
    __asan_unpoison_memory_region(fiber->mapping + GUARD_BYTES, STACK_BYTES);
#endif
    munmap(fiber->mapping, GUARD_BYTES + STACK_BYTES);
    free(fiber);
}
