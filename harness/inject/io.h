/* POSIX faults of a rank's files: a call fails with an errno, or moves less than was asked for.
 *
 * The calls are points of libfiu's own (posix/io/rw/write), enabled with our external callback. In
 * a process libfiu's preload library stands in front of the C library and asks at them; where it is
 * not, as in the simulator, the table of files here asks in its place, in the same order. Only
 * calls that the rank makes through its files count, and of its process's those that its own thread
 * makes. Private to inject. */
#ifndef HARNESS_INJECT_IO_H
#define HARNESS_INJECT_IO_H

#include "ddpcore/seam/env.h"
#include "harness/plan/plan.h"

struct harness_io;
DDP_MUST_USE ddp_status harness_io_create(struct ddp_env *env, const struct harness_plan *plan,
                                          struct harness_io **out);
void harness_io_destroy(struct harness_io *io);
/* The rank's files; inner: borrowed. */
struct ddp_files *harness_io_files(struct harness_io *io, struct ddp_files *inner);
/* The plan's fault number `fault` was reached, at match number `hit` of its trigger: its calls
 * count from now on. The event fault.fired is recorded when the first of them fails. */
void harness_io_arm(struct harness_io *io, uint32_t fault, uint64_t hit);

/* What is asked of a call of the process that libfiu's preload library does not ask itself
 * (socket.c). */
enum harness_io_question {
    HARNESS_IO_FAILS,   /* the errno that it fails with */
    HARNESS_IO_SIZE,    /* how much it moves at most; SIZE_MAX: half */
    HARNESS_IO_CONTENT, /* the bit that is flipped of what it brought, from 1 on; of accept, the
                         * stranger that comes first */
    HARNESS_IO_QUESTION_COUNT
};
/* The calling thread is inside the files of a rank, some of whose calls are to fail. */
bool harness_io_is_in_files(void);
/* 0: nothing is done to it. */
size_t harness_io_of_process(enum harness_io_call call, enum harness_io_question question);

/* Enable the calls that the plan names. */
DDP_MUST_USE ddp_status harness_io_open(const struct harness_plan *plan, struct ddp_err *err);
void harness_io_close(void);

#endif
