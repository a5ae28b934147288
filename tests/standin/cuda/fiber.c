/* Coroutines of the CUDA runtime stand-in, for tests on machines without a GPU; nothing here is a
 * GPU result. ucontext makes the stacks; the sanitizers are told of every switch. */
#include "tests/standin/cuda/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

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

#ifdef __x86_64__
struct standin_fiber_place { /* where a stack was left */
    void *stack_pointer;
};

/* Pushes what a function must keep, leaves the stack at *from, and goes on at *to. */
void standin_fiber_switch(struct standin_fiber_place *from, const struct standin_fiber_place *to);
__asm__(".text\n"
        ".globl standin_fiber_switch\n"
        ".type standin_fiber_switch, @function\n"
        "standin_fiber_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq (%rsi), %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size standin_fiber_switch, . - standin_fiber_switch\n");

/* As if `entry` had been about to be called: six registers, its address, no return address. */
static void place_init(struct standin_fiber_place *place, unsigned char *stack, size_t size_bytes,
                       void (*entry)(void))
{
    uintptr_t *top = (uintptr_t *)(void *)(stack + size_bytes);

    top[-1] = 0;
    top[-2] = (uintptr_t)entry;
    place->stack_pointer = memset(top - 8, 0, 6 * sizeof(*top));
}
#else
struct standin_fiber_place {
    ucontext_t context;
};

static void standin_fiber_switch(struct standin_fiber_place *from,
                                 const struct standin_fiber_place *to)
{
    swapcontext(&from->context, &to->context);
}

static void place_init(struct standin_fiber_place *place, unsigned char *stack, size_t size_bytes,
                       void (*entry)(void))
{
    if (getcontext(&place->context) != 0) {
        abort();
    }
    place->context.uc_stack.ss_sp = stack;
    place->context.uc_stack.ss_size = size_bytes;
    makecontext(&place->context, entry, 0);
}
#endif

struct standin_fiber {
    struct standin_fiber_place place, home_place;
    struct standin_fiber_home *home;
    void (*body)(void *argument);
    void *argument;
    unsigned char *mapping; /* a guard page, then the stack */
    void *thread;           /* what ThreadSanitizer takes the fiber for */
    void *fake_stack, *home_fake_stack;
};

static _Thread_local struct standin_fiber *entered; /* last, by this thread */

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
    standin_fiber_switch(&fiber->place, &fiber->home_place);
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
    entered = fiber;
    standin_fiber_switch(&fiber->home_place, &fiber->place);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber->home_fake_stack, NULL, NULL);
#endif
}

static void fiber_main(void)
{
    struct standin_fiber *fiber = entered;

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

struct standin_fiber *standin_fiber_create(struct standin_fiber_home *home,
                                           void (*body)(void *argument), void *argument)
{
    struct standin_fiber *fiber = calloc(1, sizeof(*fiber));

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
    place_init(&fiber->place, fiber->mapping + GUARD_BYTES, STACK_BYTES, fiber_main);
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
