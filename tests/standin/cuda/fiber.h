/* Coroutines of the CUDA runtime stand-in, for tests on machines without a GPU; nothing that runs
 * on it is a GPU result. A fiber belongs to the thread that created it. */
#ifndef TESTS_STANDIN_CUDA_FIBER_H
#define TESTS_STANDIN_CUDA_FIBER_H

#include <stddef.h>

/* The stack of the thread that enters fibers, for the sanitizers, which must know which one is in
 * use. Zero-initialised by its owner. */
struct standin_fiber_home {
    void *thread;
    const void *stack;
    size_t stack_bytes;
};

struct standin_fiber;

/* body(argument) runs in standin_fiber_enter, and again from the start on an enter after it has
 * returned. NULL: no memory. */
struct standin_fiber *standin_fiber_create(struct standin_fiber_home *home,
                                           void (*body)(void *argument), void *argument);
/* May stand in the middle of its body, which is then never finished. */
void standin_fiber_destroy(struct standin_fiber *fiber);
/* Runs the fiber until its body returns or leaves. */
void standin_fiber_enter(struct standin_fiber *fiber);
/* In the body: go back to who entered; returns at the next enter. */
void standin_fiber_leave(struct standin_fiber *fiber);

#endif
