/* Purpose: the program of a rank that is tried: ddprove says which call, the rank makes it on
 * buffers with guards around, and says what became of it. What is right is judged elsewhere.
 * Idea: all that a rank writes lies in shared memory, so that what is known of it survives its
 * death. After a call that was odd the communicator is given up, and the next trial has a new one:
 * that it works is a thing to be tried as well. */
#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/lab/engine.h"
#include "harness/lab/sealed.h"

#define GUARD_BYTES ((size_t)4096) /* who rounds up to a block writes far behind */
enum {
    GUARD = 0xa5,
    UNWRITTEN = 0xff,
    FRESH = 0x33,
    LATE_MS = 30,
    STOP_AFTER_MS = 1,
    ABORT_MS = 60
};

/* A buffer with guards on both sides. */
struct guarded {
    unsigned char *room;
    size_t size_bytes; /* of what is between them */
    unsigned char *data;
};

struct trying {
    struct harness_lab_shared *shared;
    struct harness_lab_slot *slot;
    uint32_t number;
    struct harness_lab_engine *engine; /* NULL: the next trial opens one */
    struct harness_lab_engine *second; /* the other one of two at once; or NULL */
    uint32_t opened;                   /* communicators so far */
    struct ddp_err *err;
};

/* --- buffers ---------------------------------------------------------------------------------- */

static bool make_guarded(struct guarded *guarded, size_t size_bytes, size_t shift_bytes)
{
    guarded->size_bytes = size_bytes;
    guarded->room =
        aligned_alloc(DDP_CACHE_LINE_BYTES, (size_bytes + shift_bytes + 3 * GUARD_BYTES) /
                                                DDP_CACHE_LINE_BYTES * DDP_CACHE_LINE_BYTES);
    if (guarded->room == NULL) {
        return false;
    }
    guarded->data = guarded->room + GUARD_BYTES + shift_bytes;
    memset(guarded->room, GUARD, GUARD_BYTES + shift_bytes);
    memset(guarded->data + size_bytes, GUARD, GUARD_BYTES); /* what lies between may be unused */
    return true;
}

/* Where a guard was written to, from the beginning of the data before it, from their end behind
 * it; 0: nowhere. */
static int64_t find_damage(const struct guarded *guarded)
{
    for (size_t i = 1; guarded->data != NULL && i <= GUARD_BYTES; i++) {
        if (guarded->data[-(ptrdiff_t)i] != GUARD) {
            return -(int64_t)i;
        }
        if (guarded->data[guarded->size_bytes + i - 1] != GUARD) {
            return (int64_t)i;
        }
    }
    return 0;
}

struct buffers {
    struct guarded input, output;
    size_t in_bytes, out_bytes; /* of a slice: what the longest call has */
};

/* The first damage stays. */
static void note_damage(struct harness_lab_slot *slot, const struct buffers *buffers)
{
    int64_t *at = &slot->outcome.guard_at;

    *at = *at != 0 ? *at : find_damage(&buffers->output);
    *at = *at != 0 ? *at : find_damage(&buffers->input);
}

/* --- calls ------------------------------------------------------------------------------------ */

static size_t descriptor_count(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    while (folder != NULL && readdir(folder) != NULL) { // NOLINT(concurrency-mt-unsafe)
        count++;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return count;
}

/* What is mapped, and so no part of the heap. */
static uint64_t mapped_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[128] = "";

    if (file != NULL) {
        if (fgets(line, sizeof line, file) == NULL) {
            line[0] = '\0';
        }
        (void)fclose(file);
    }
    return strtoull(line, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static unsigned char *slice(const struct trying *trying, enum harness_lab_area area, size_t bytes,
                            uint32_t index)
{
    return (unsigned char *)harness_lab_area(trying->shared, trying->number, area) + bytes * index;
}

/* In place, the input is a part of the output's buffer, or the output one of the input's. */
static void place(const struct trying *trying, uint32_t index, const struct buffers *buffers,
                  struct harness_lab_call *call)
{
    const struct harness_lab_trial *trial = &trying->shared->trial;
    enum ddp_coll_kind kind = trying->shared->request.kind;
    size_t elem_count = harness_lab_call_elems(trial, index);
    uint32_t root = harness_lab_call_root(&trying->shared->request, trial, index);
    size_t block = elem_count * ddp_dtype_size_bytes(trial->dtype);
    bool is_apart = !trial->is_in_place || (kind == DDP_COLL_REDUCE && trying->number != root);

    *call = (struct harness_lab_call){.redop = trial->redop,
                                      .dtype = trial->dtype,
                                      .root = root,
                                      .elem_count = elem_count,
                                      .input = buffers->input.data,
                                      .output = buffers->output.data};
    if (is_apart) {
        return;
    }
    if (kind == DDP_COLL_ALL_GATHER) {
        call->input = buffers->output.data + trying->number * block;
    } else if (kind == DDP_COLL_REDUCE_SCATTER) {
        call->output = buffers->input.data + trying->number * block;
    } else {
        call->input = buffers->output.data;
    }
}

/* Whether the input is what it was, but for an output that lies in it; and whether who has no
 * output has written to one. */
static void look_at_buffers(const struct trying *trying, const struct buffers *buffers,
                            const struct harness_lab_call *call, const unsigned char *numbers)
{
    struct harness_lab_outcome *outcome = &trying->slot->outcome;
    const struct harness_lab_request *request = &trying->shared->request;
    size_t elem_bytes = ddp_dtype_size_bytes(call->dtype);
    size_t in_bytes = harness_lab_input_elems(request, call->elem_count) * elem_bytes;
    const unsigned char *output = call->output;
    const unsigned char *end =
        output + harness_lab_output_elems(request, call->elem_count) * elem_bytes;

    for (size_t i = 0; call->input == buffers->input.data && i < in_bytes; i++) {
        const unsigned char *at = buffers->input.data + i;

        if (outcome->input_at < 0 && (at < output || at >= end) && *at != numbers[i]) {
            outcome->input_at = (int64_t)(i / elem_bytes);
        }
    }
    for (; request->kind == DDP_COLL_REDUCE && trying->number != call->root && output < end;
         output++) {
        outcome->has_written = outcome->has_written || *output != UNWRITTEN;
    }
}

/* Whether the input is one that a call may read alone, and this thread's is the only call. */
static bool is_sealed(const struct harness_lab_trial *trial, const struct harness_lab_call *call,
                      const struct buffers *buffers)
{
    return call->input == buffers->input.data && !trial->is_in_place && !trial->is_twofold &&
           trial->oddity == HARNESS_LAB_NOTHING_ODD;
}

static void note_written(struct harness_lab_slot *slot, int64_t at, enum ddp_dtype dtype)
{
    if (at >= 0 && slot->outcome.input_at < 0) {
        slot->outcome.input_at = at / (int64_t)ddp_dtype_size_bytes(dtype);
    }
}

/* One call of a trial, with its slice of the arena. */
static ddp_status make_call(const struct trying *trying, struct harness_lab_engine *engine,
                            const struct buffers *buffers, uint32_t index)
{
    const struct harness_lab_trial *trial = &trying->shared->trial;
    const unsigned char *numbers = slice(trying, HARNESS_LAB_INPUT, buffers->in_bytes, index);
    struct harness_lab_call call, made;
    ddp_status status;

    place(trying, index, buffers, &call);
    memset(buffers->output.data, UNWRITTEN, buffers->out_bytes);
    if (buffers->in_bytes > 0) {
        memcpy((void *)(uintptr_t)call.input, numbers, buffers->in_bytes);
    }
    made = call;
    if (trial->oddity == HARNESS_LAB_OTHER_COUNT && trial->odd_rank == trying->number) {
        made.elem_count = trial->odd_elem_count;
    }
    if (is_sealed(trial, &call, buffers)) {
        harness_lab_seal(call.input, buffers->in_bytes);
        status = engine->ops->run(engine, &made);
        note_written(trying->slot, harness_lab_unseal(), trial->dtype);
    } else {
        status = engine->ops->run(engine, &made);
    }
    if (status == DDP_OK && buffers->out_bytes > 0) {
        memcpy(slice(trying, HARNESS_LAB_EXPECTED, buffers->out_bytes, index), call.output,
               buffers->out_bytes);
    }
    look_at_buffers(trying, buffers, &call, numbers);
    return status;
}

/* One more element than the trial says may be asked for. */
static bool make_buffers(const struct trying *trying, struct buffers *buffers)
{
    const struct harness_lab_trial *trial = &trying->shared->trial;
    const struct harness_lab_request *request = &trying->shared->request;
    size_t elem_bytes = ddp_dtype_size_bytes(trial->dtype);
    bool is_long = trial->oddity == HARNESS_LAB_OTHER_COUNT;
    size_t more = is_long ? request->ranks * elem_bytes : 0;
    size_t elems = trial->slice_elem_count > 0 ? trial->slice_elem_count : trial->elem_count;
    size_t in_bytes = harness_lab_input_elems(request, elems) * elem_bytes;
    size_t out_bytes = harness_lab_output_elems(request, elems) * elem_bytes;
    /* Where the input is in the output's buffer, that must hold both. */
    size_t out_room = out_bytes > in_bytes || !trial->is_in_place ? out_bytes : in_bytes;

    buffers->in_bytes = in_bytes;
    buffers->out_bytes = out_bytes;
    return make_guarded(&buffers->input, in_bytes + more, trial->shift * elem_bytes) &&
           make_guarded(&buffers->output, out_room + more, trial->shift * elem_bytes);
}

/* --- two at once ------------------------------------------------------------------------------ */

struct companion {
    const struct trying *trying;
    pthread_barrier_t both; /* they begin together */
    struct buffers buffers;
    ddp_status status;
};

static void *run_companion(void *argument)
{
    struct companion *companion = argument;

    (void)pthread_barrier_wait(&companion->both);
    companion->status =
        make_call(companion->trying, companion->trying->second, &companion->buffers, 1);
    return NULL;
}

static ddp_status call_both(struct trying *trying, const struct buffers *buffers)
{
    struct companion companion = {.trying = trying};
    ddp_status status;
    pthread_t thread;

    if (!make_buffers(trying, &companion.buffers) ||
        pthread_barrier_init(&companion.both, NULL, 2) != 0 ||
        pthread_create(&thread, NULL, run_companion, &companion) != 0) {
        return DDP_E_NOMEM;
    }
    (void)pthread_barrier_wait(&companion.both);
    status = make_call(trying, trying->engine, buffers, 0);
    (void)pthread_join(thread, NULL);
    (void)pthread_barrier_destroy(&companion.both);
    note_damage(trying->slot, &companion.buffers);
    free(companion.buffers.input.room);
    free(companion.buffers.output.room);
    return status != DDP_OK ? status : companion.status;
}

/* --- abort ------------------------------------------------------------------------------------ */

static void *run_abort(void *argument)
{
    struct harness_lab_engine *engine = argument;

    if (engine->shared->trial.oddity == HARNESS_LAB_ABORTED) {
        (void)poll(NULL, 0, ABORT_MS); /* the fault: it comes while the call runs */
    }
    engine->ops->abort(engine);
    engine->ops->abort(engine);
    return NULL;
}

static ddp_status others_poll(void *self)
{
    const struct trying *trying = self;

    for (uint32_t r = 0; r < trying->shared->request.ranks; r++) {
        if (r != trying->number && __atomic_load_n(&trying->shared->slot[r].outcome.status,
                                                   __ATOMIC_ACQUIRE) == DDP_PENDING) {
            return DDP_PENDING;
        }
    }
    return DDP_OK;
}

static ddp_status call_aborted(struct trying *trying, const struct buffers *buffers)
{
    enum harness_lab_oddity oddity = trying->shared->trial.oddity;
    ddp_status status;
    pthread_t thread;

    if (trying->shared->trial.odd_rank == trying->number) {
        /* It takes no part, and stays: its leaving would end the others' calls too. */
        const struct ddp_pollable others = {others_poll, NULL, trying};
        struct ddp_idle_process idle;

        ddp_idle_process_init(&idle, ddp_clock_monotonic(), false);
        DDP_TRY(ddp_wait(&idle.base, ddp_clock_monotonic(), &others, DDP_DEADLINE_NEVER));
        return DDP_E_REVOKED;
    }
    trying->engine->is_aborted_posted = oddity == HARNESS_LAB_ABORTED_POSTED;
    if (trying->engine->is_aborted_posted) {
        return make_call(trying, trying->engine, buffers, 0);
    }
    if (pthread_create(&thread, NULL, run_abort, trying->engine) != 0) {
        return DDP_E_NOMEM;
    }
    if (oddity == HARNESS_LAB_ABORTED_BEFORE) {
        (void)pthread_join(thread, NULL);
        return make_call(trying, trying->engine, buffers, 0);
    }
    status = make_call(trying, trying->engine, buffers, 0);
    (void)pthread_join(thread, NULL);
    return status;
}

/* --- a trial ---------------------------------------------------------------------------------- */

/* The fault: a process of its own stops this one for a while. Returns it; -1: there is none. */
static pid_t stop_soon(void)
{
    pid_t stopped = getpid();
    pid_t stopper = fork();

    if (stopper == 0) {
        (void)poll(NULL, 0, STOP_AFTER_MS);
        (void)kill(stopped, SIGSTOP);
        (void)poll(NULL, 0, LATE_MS);
        (void)kill(stopped, SIGCONT);
        _exit(0);
    }
    return stopper;
}

static ddp_status call_all(struct trying *trying, const struct buffers *buffers)
{
    const struct harness_lab_trial *trial = &trying->shared->trial;
    bool is_odd = trial->odd_rank == trying->number;
    pid_t stopper = trial->oddity == HARNESS_LAB_STOPPED && is_odd ? stop_soon() : -1;
    ddp_status status = DDP_OK;

    if (trial->oddity == HARNESS_LAB_DIES && is_odd) {
        (void)raise(SIGKILL);
    }
    if (trial->oddity == HARNESS_LAB_LATE && is_odd) {
        (void)poll(NULL, 0, LATE_MS); /* the fault */
    }
    if (trial->oddity >= HARNESS_LAB_ABORTED_BEFORE) {
        return call_aborted(trying, buffers);
    }
    if (trial->is_twofold) {
        return call_both(trying, buffers);
    }
    for (uint32_t k = 0; status == DDP_OK && k < trial->calls; k++) {
        status = make_call(trying, trying->engine, buffers, k);
    }
    if (stopper > 0) {
        (void)waitpid(stopper, NULL, 0);
    }
    return status;
}

static ddp_status open_engines(struct trying *trying)
{
    if (trying->engine == NULL) {
        DDP_TRY(harness_lab_engine_open(trying->shared, trying->number, trying->opened++,
                                        &trying->engine, trying->err));
    }
    if (trying->second == NULL && trying->shared->trial.is_twofold) {
        DDP_TRY(harness_lab_engine_open(trying->shared, trying->number, trying->opened++,
                                        &trying->second, trying->err));
    }
    return DDP_OK;
}

static void close_engines(struct trying *trying)
{
    if (trying->engine != NULL) {
        trying->engine->ops->close(trying->engine);
    }
    if (trying->second != NULL) {
        trying->second->ops->close(trying->second);
    }
    trying->engine = NULL;
    trying->second = NULL;
}

static void try_once(struct trying *trying)
{
    const struct harness_lab_trial *trial = &trying->shared->trial;
    struct harness_lab_outcome *outcome = &trying->slot->outcome;
    struct buffers buffers = {0};
    uint64_t begin_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    ddp_status status;

    *outcome = (struct harness_lab_outcome){.input_at = -1, .status = DDP_PENDING};
    trying->err->text[0] = '\0';
    status = open_engines(trying);
    if (status == DDP_OK) {
        status = make_buffers(trying, &buffers) ? call_all(trying, &buffers) : DDP_E_NOMEM;
        note_damage(trying->slot, &buffers);
    }
    (void)snprintf(outcome->text, sizeof outcome->text, "%.190s",
                   status == DDP_OK               ? ""
                   : trying->err->text[0] != '\0' ? trying->err->text
                                                  : ddp_status_text(status));
    free(buffers.input.room);
    free(buffers.output.room);
    if (status != DDP_OK || trial->oddity > HARNESS_LAB_STOPPED) {
        close_engines(trying);
    }
    outcome->heap_bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
    outcome->mapped_bytes = mapped_bytes();
    outcome->descriptors = descriptor_count();
    outcome->elapsed_ns = ddp_clock_now_ns(ddp_clock_monotonic()) - begin_ns;
    __atomic_store_n(&outcome->status, status, __ATOMIC_RELEASE);
}

struct awaited {
    const struct harness_lab_shared *shared;
    uint32_t ready;
};

static ddp_status awaited_poll(void *self)
{
    const struct awaited *awaited = self;
    uint32_t ready = __atomic_load_n(&awaited->shared->ready, __ATOMIC_ACQUIRE);

    return ready != awaited->ready ? DDP_OK : DDP_PENDING;
}

ddp_status harness_lab_try(struct harness_lab_shared *shared, uint32_t rank, struct ddp_err *err)
{
    struct trying trying = {
        .shared = shared, .slot = &shared->slot[rank], .number = rank, .err = err};
    struct ddp_idle_process idle;
    uint32_t done = 0;

    /* Memory that is new, or given back, holds no zeros: who reads it is wrong here as well. */
    (void)mallopt(M_PERTURB, FRESH);
    ddp_idle_process_init(&idle, ddp_clock_monotonic(), false);
    for (;;) {
        struct awaited awaited = {shared, done};
        const struct ddp_pollable pollable = {awaited_poll, NULL, &awaited};

        DDP_TRY(ddp_wait(&idle.base, ddp_clock_monotonic(), &pollable, DDP_DEADLINE_NEVER));
        if (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) == HARNESS_LAB_OVER) {
            close_engines(&trying);
            return DDP_OK;
        }
        try_once(&trying);
        __atomic_store_n(&trying.slot->done, ++done, __ATOMIC_RELEASE);
    }
}
