/* See the header. Counters are the callback's alone: it runs under libfiu's lock, gets no user
 * data, and so finds the rank in `asked`, which is set for as long as the rank is inside its files.
 */
#define FIU_ENABLE 1
#include "harness/inject/io.h"

#include <dlfcn.h>
#include <errno.h>
#include <fiu-control.h>
#include <fiu.h>
#include <string.h>

struct armed {
    bool is_armed, has_struck, is_recorded;
    uint64_t hit;
    /* Seen so far, at the call's point, at the one of its size and at the one of what it brought.
     */
    uint64_t calls, sizes, contents;
};

struct harness_io {
    struct ddp_files files; /* first: the table's pointer is this one */
    struct ddp_files *inner;
    struct ddp_env *env;
    const struct harness_plan *plan;
    bool is_asking; /* nobody below asks libfiu */
    struct armed *armed;
};

static _Thread_local struct harness_io *asked; /* NULL: whoever calls is not a rank's files */
/* The rank of this process, once a fault of its process's calls is armed; never in the simulator.
 */
static struct harness_io *of_process;
/* This thread is the rank. A library's threads (NCCL's, MPI's) have sockets of their own. */
static _Thread_local bool is_rank;

static bool is_call(const struct harness_fault *fault, enum harness_io_call call)
{
    return fault->action.kind == HARNESS_ACTION_IO && fault->action.io.call == call;
}

/* The errno that the call fails with; 0: none. With `short`, the call before is cut. */
static int next_error(struct harness_io *io, enum harness_io_call call)
{
    int error = 0;

    for (uint32_t i = 0; i < io->plan->fault_count; i++) {
        const struct harness_io_fault *fault = &io->plan->faults[i].action.io;
        struct armed *armed = &io->armed[i];
        uint64_t first = fault->after + (fault->is_short ? 1 : 0);
        uint64_t number;

        if (!armed->is_armed || !is_call(&io->plan->faults[i], call)) {
            continue;
        }
        number = armed->calls++;
        if (fault->error != 0 && number >= first &&
            (fault->times == 0 || number - first < fault->times)) {
            armed->has_struck = true;
            error = fault->error;
        }
    }
    return error;
}

/* Whether the call moves a part: one does ahead of those that fail, else so many as `times` says.
 * Not 0: how much, at most; SIZE_MAX: half. */
static size_t next_size(struct harness_io *io, enum harness_io_call call)
{
    size_t size_bytes = 0;

    for (uint32_t i = 0; i < io->plan->fault_count; i++) {
        const struct harness_io_fault *fault = &io->plan->faults[i].action.io;
        const uint64_t times = fault->error != 0 ? 1 : fault->times;
        struct armed *armed = &io->armed[i];
        uint64_t number;

        if (!armed->is_armed || !is_call(&io->plan->faults[i], call)) {
            continue;
        }
        number = armed->sizes++;
        if (fault->is_short && number >= fault->after &&
            (times == 0 || number - fault->after < times)) {
            armed->has_struck = true;
            size_bytes = fault->bytes > 0 ? (size_t)fault->bytes : SIZE_MAX;
        }
    }
    return size_bytes;
}

static size_t content_of(const struct harness_io_fault *fault)
{
    return fault->call == HARNESS_IO_ACCEPT ? (size_t)fault->stranger
           : fault->flip >= 0               ? (size_t)fault->flip + 1
                                            : 0;
}

/* The bit that is flipped of what the call brought, from 1 on, or who comes before it; 0: none. */
static size_t next_content(struct harness_io *io, enum harness_io_call call)
{
    size_t content = 0;

    for (uint32_t i = 0; i < io->plan->fault_count; i++) {
        const struct harness_io_fault *fault = &io->plan->faults[i].action.io;
        struct armed *armed = &io->armed[i];
        uint64_t number;

        if (!armed->is_armed || !is_call(&io->plan->faults[i], call) || content_of(fault) == 0) {
            continue;
        }
        number = armed->contents++;
        if (number >= fault->after && (fault->times == 0 || number - fault->after < fault->times)) {
            armed->has_struck = true;
            content = content_of(fault);
        }
    }
    return content;
}

/* What has struck and was not recorded is. */
static void record(struct harness_io *io)
{
    for (uint32_t i = 0; i < io->plan->fault_count; i++) {
        struct armed *armed = &io->armed[i];

        if (armed->has_struck && !armed->is_recorded) {
            armed->is_recorded = true;
            ddp_recorder_event(io->env->recorder, DDP_EVENT_FAULT_FIRED, i,
                               (uint64_t)io->plan->faults[i].point, armed->hit, 0, 0);
        }
    }
}

/* --- libfiu ----------------------------------------------------------------------------------- */

static int decide(enum harness_io_call call, enum harness_io_question question, int *failnum,
                  void **failinfo)
{
    struct harness_io *io = harness_io_is_of_process(call) ? of_process : asked;
    size_t answer = 0;

    io = io == of_process && !is_rank ? NULL : io;
    if (io != NULL) {
        answer = question == HARNESS_IO_FAILS  ? (size_t)next_error(io, call)
                 : question == HARNESS_IO_SIZE ? next_size(io, call)
                                               : next_content(io, call);
    }
    if (io != NULL && io == of_process) {
        record(io);
    }
    *failnum = answer != 0;
    *failinfo = (void *)answer; /* of a failure, what the preload library sets errno to */
    return *failnum;
}

#define ANSWER(id, question)                                                                       \
    static int question##_##id(const char *at, int *failnum, void **failinfo, unsigned int *flags) \
    {                                                                                              \
        (void)at;                                                                                  \
        (void)flags;                                                                               \
        return decide(id, question, failnum, failinfo);                                            \
    }
#define X(id, name, point, meaning) \
    ANSWER(id, HARNESS_IO_FAILS)    \
    ANSWER(id, HARNESS_IO_SIZE)     \
    ANSWER(id, HARNESS_IO_CONTENT)
HARNESS_IO_CALL_TABLE(X)
#undef X
#undef ANSWER

static const struct {
    const char *point;
    external_cb_t *decide;
} calls[HARNESS_IO_CALL_COUNT][HARNESS_IO_QUESTION_COUNT] = {
#define X(id, name, point, meaning)                               \
    {[HARNESS_IO_FAILS] = {point, HARNESS_IO_FAILS_##id},         \
     [HARNESS_IO_SIZE] = {point "/reduce", HARNESS_IO_SIZE_##id}, \
     [HARNESS_IO_CONTENT] = {point "/flip", HARNESS_IO_CONTENT_##id}},
    HARNESS_IO_CALL_TABLE(X)
#undef X
};

size_t harness_io_of_process(enum harness_io_call call, enum harness_io_question question)
{
    return of_process != NULL && fiu_fail(calls[call][question].point) != 0 ? (size_t)fiu_failinfo()
                                                                            : 0;
}

/* Calls that are enabled now, so that closing disables exactly these. */
static bool is_open[HARNESS_IO_CALL_COUNT];

ddp_status harness_io_open(const struct harness_plan *plan, struct ddp_err *err)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        enum harness_io_call call = plan->faults[i].action.io.call;

        if (plan->faults[i].action.kind != HARNESS_ACTION_IO || is_open[call]) {
            continue;
        }
        is_open[call] = true;
        for (unsigned k = 0; k < HARNESS_IO_QUESTION_COUNT; k++) {
            if (fiu_enable_external(calls[call][k].point, 1, NULL, 0, calls[call][k].decide) != 0) {
                return ddp_err_set(err, DDP_E_SYSTEM, "libfiu refused the point %s",
                                   calls[call][k].point);
            }
        }
    }
    return DDP_OK;
}

void harness_io_close(void)
{
    for (unsigned i = 0; i < HARNESS_IO_CALL_COUNT; i++) {
        for (unsigned k = 0; is_open[i] && k < HARNESS_IO_QUESTION_COUNT; k++) {
            (void)fiu_disable(calls[i][k].point);
        }
        is_open[i] = false;
    }
}

/* Whether the C library's functions are those of libfiu's preload library, and it asks the libfiu
 * that we enabled the points in. */
static bool is_preloaded(void)
{
    void *function = dlsym(RTLD_DEFAULT, "write");
    void *ask = dlsym(RTLD_DEFAULT, "fiu_fail");
    Dl_info info;

    return function != NULL && ask == (void *)(uintptr_t)fiu_fail && dladdr(function, &info) != 0 &&
           strstr(info.dli_fname, "fiu_posix_preload") != NULL;
}

/* --- files ------------------------------------------------------------------------------------ */

bool harness_io_is_in_files(void)
{
    return asked != NULL;
}

static struct harness_io *enter(struct ddp_files *files)
{
    asked = (struct harness_io *)files;
    return asked;
}

static void leave(struct harness_io *io)
{
    asked = NULL;
    record(io);
}

/* As the preload library does before the call; the operating system's files repeat what a signal
 * interrupted. Returns an errno. */
static int ask(const struct harness_io *io, enum harness_io_call call)
{
    int error = io->is_asking ? EINTR : 0;

    while (error == EINTR) {
        error =
            fiu_fail(calls[call][HARNESS_IO_FAILS].point) != 0 ? (int)(intptr_t)fiu_failinfo() : 0;
        if (call == HARNESS_IO_CLOSE) {
            break;
        }
    }
    return error;
}

static bool ask_size(const struct harness_io *io, enum harness_io_call call)
{
    return io->is_asking && fiu_fail(calls[call][HARNESS_IO_SIZE].point) != 0;
}

static ddp_status fail(int error, const char *what, const char *path, struct ddp_err *err)
{
    return ddp_err_set(err, ddp_files_status(error), "cannot %s%s%s: %s", what,
                       path[0] == '\0' ? "" : " ", path, strerror(error));
}

static ddp_status io_create(struct ddp_files *files, const char *path, int *out_handle,
                            struct ddp_err *err)
{
    struct harness_io *io = enter(files);
    int error = ask(io, HARNESS_IO_OPEN);
    ddp_status status = error != 0 ? fail(error, "create", path, err)
                                   : io->inner->ops->create(io->inner, path, out_handle, err);

    leave(io);
    return status;
}

static ddp_status io_append(struct ddp_files *files, const char *path, int *out_handle,
                            struct ddp_err *err)
{
    struct harness_io *io = enter(files);
    int error = ask(io, HARNESS_IO_OPEN);
    ddp_status status = error != 0 ? fail(error, "create", path, err)
                                   : io->inner->ops->append(io->inner, path, out_handle, err);

    leave(io);
    return status;
}

static ddp_status io_write(struct ddp_files *files, int handle, const void *data, size_t size_bytes,
                           size_t *out_written, struct ddp_err *err)
{
    struct harness_io *io = enter(files);
    bool is_short = size_bytes > 0 && ask_size(io, HARNESS_IO_WRITE);
    int error = size_bytes > 0 ? ask(io, HARNESS_IO_WRITE) : 0;
    size_t bytes = is_short ? size_bytes - size_bytes / 2 : size_bytes;
    ddp_status status;

    *out_written = 0;
    status = error != 0 ? fail(error, "write", "", err)
                        : io->inner->ops->write(io->inner, handle, data, bytes, out_written, err);
    leave(io);
    return status;
}

static ddp_status io_sync(struct ddp_files *files, int handle, struct ddp_err *err)
{
    struct harness_io *io = enter(files);
    int error = ask(io, HARNESS_IO_FSYNC);
    ddp_status status =
        error != 0 ? fail(error, "sync", "", err) : io->inner->ops->sync(io->inner, handle, err);

    leave(io);
    return status;
}

static ddp_status io_close(struct ddp_files *files, int handle, struct ddp_err *err)
{
    struct harness_io *io = enter(files);
    int error = ask(io, HARNESS_IO_CLOSE);
    ddp_status status = io->inner->ops->close(io->inner, handle, err);

    if (status == DDP_OK && error != 0 && error != EINTR) {
        status = fail(error, "close", "", err);
    }
    leave(io);
    return status;
}

/* The folder is opened, synced and closed, behind the renaming itself. */
static ddp_status io_rename(struct ddp_files *files, const char *from, const char *to,
                            struct ddp_err *err)
{
    struct harness_io *io = enter(files);
    ddp_status status = io->inner->ops->rename(io->inner, from, to, err);

    if (status == DDP_OK) {
        int error = ask(io, HARNESS_IO_OPEN);

        if (error == 0) {
            error = ask(io, HARNESS_IO_FSYNC);
            (void)ask(io, HARNESS_IO_CLOSE);
        }
        status =
            error != 0 && error != EINVAL ? fail(error, "sync the folder of", to, err) : DDP_OK;
    }
    leave(io);
    return status;
}

static ddp_status io_read_all(struct ddp_files *files, const char *path, struct ddp_mem *mem,
                              void **out_data, size_t *out_size_bytes, struct ddp_err *err)
{
    struct harness_io *io = enter(files);
    int error = ask(io, HARNESS_IO_OPEN);
    ddp_status status;

    if (error == 0) {
        bool is_short;

        do {
            is_short = ask_size(io, HARNESS_IO_READ);
            error = ask(io, HARNESS_IO_READ);
        } while (error == 0 && is_short);
        (void)ask(io, HARNESS_IO_CLOSE);
    }
    status = error != 0
                 ? fail(error, "read", path, err)
                 : io->inner->ops->read_all(io->inner, path, mem, out_data, out_size_bytes, err);
    leave(io);
    return status;
}

static ddp_status io_remove(struct ddp_files *files, const char *path, struct ddp_err *err)
{
    struct ddp_files *inner = ((struct harness_io *)files)->inner;

    return inner->ops->remove(inner, path, err);
}

static ddp_status io_each(struct ddp_files *files, const char *folder,
                          ddp_status (*take)(void *context, const char *path, struct ddp_err *err),
                          void *context, struct ddp_err *err)
{
    struct ddp_files *inner = ((struct harness_io *)files)->inner;

    return inner->ops->each(inner, folder, take, context, err);
}

ddp_status harness_io_create(struct ddp_env *env, const struct harness_plan *plan,
                             struct harness_io **out)
{
    static const struct ddp_files_ops ops = {"faulty", io_create, io_append,   io_write,  io_sync,
                                             io_close, io_rename, io_read_all, io_remove, io_each};
    struct harness_io *io = ddp_mem_array(env->mem, 1, sizeof *io);

    if (io == NULL) {
        return DDP_E_NOMEM;
    }
    io->armed = ddp_mem_array(env->mem, plan->fault_count, sizeof io->armed[0]);
    if (io->armed == NULL) {
        ddp_mem_free(env->mem, io);
        return DDP_E_NOMEM;
    }
    io->files.ops = &ops;
    io->env = env;
    io->plan = plan;
    *out = io;
    return DDP_OK;
}

void harness_io_destroy(struct harness_io *io)
{
    struct ddp_mem *mem;

    if (io == NULL) {
        return;
    }
    of_process = of_process == io ? NULL : of_process;
    mem = io->env->mem;
    ddp_mem_free(mem, io->armed);
    ddp_mem_free(mem, io);
}

struct ddp_files *harness_io_files(struct harness_io *io, struct ddp_files *inner)
{
    io->inner = inner;
    io->is_asking = inner != ddp_files_system() || !is_preloaded();
    return &io->files;
}

void harness_io_arm(struct harness_io *io, uint32_t fault, uint64_t hit)
{
    DDP_ASSERT(fault < io->plan->fault_count);
    if (!io->armed[fault].is_armed) {
        io->armed[fault] = (struct armed){.is_armed = true, .hit = hit};
    }
    if (harness_io_is_of_process(io->plan->faults[fault].action.io.call) && is_preloaded()) {
        of_process = io;
        is_rank = true;
    }
}
