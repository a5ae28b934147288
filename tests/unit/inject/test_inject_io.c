/* POSIX faults of a rank's files, on files in memory: which call fails, with what, and how often.
 */
#include <errno.h>
#include <string.h>

#include "harness/inject/inject.h"
#include "tests/ct.h"

#define RING_ENTRIES 256

struct fixture {
    struct ddp_mem_pool *pool;
    struct ddp_env env;
    struct ddp_recorder recorder;
    struct harness_victim victim;
    struct harness_fault fault;
    struct harness_plan plan;
    struct harness_injector *injector;
    struct ddp_files_memory *memory;
    struct ddp_files *files; /* the rank's */
    struct ddp_err err;
};

static void open_fixture(struct fixture *f, const struct harness_io_fault *io)
{
    memset(f, 0, sizeof *f);
    CT_REQUIRE_OK(ddp_mem_pool_create(&f->pool));
    f->env.world_size = 1;
    f->env.mem = ddp_mem_pool_mem(f->pool);
    f->env.clock = ddp_clock_monotonic();
    f->env.recorder = &f->recorder;
    ddp_recorder_init(&f->recorder,
                      ddp_mem_array(f->env.mem, ddp_recorder_size_bytes(RING_ENTRIES), 1),
                      RING_ENTRIES, f->env.clock, 0, 1, 1);
    f->fault.at = (struct harness_trigger){.step = -1,
                                           .micro = -1,
                                           .phase = -1,
                                           .bucket = -1,
                                           .param = -1,
                                           .layer = -1,
                                           .seq = -1,
                                           .hit = 1,
                                           .times = 1};
    f->fault.point = DDP_FAULT_POINT_CHECKPOINT_KEY;
    f->fault.action.kind = HARNESS_ACTION_IO;
    f->fault.action.io = *io;
    f->plan.faults = &f->fault;
    f->plan.fault_count = 1;
    CT_REQUIRE_OK(harness_inject_open(&f->plan, &f->err));
    CT_REQUIRE_OK(harness_injector_create(&f->env, &f->plan, &f->victim, &f->injector, &f->err));
    CT_REQUIRE_OK(ddp_files_memory_create(&f->memory));
    f->files = harness_injector_files(f->injector, ddp_files_memory_files(f->memory));
}

static void close_fixture(struct fixture *f)
{
    harness_injector_destroy(f->injector);
    harness_inject_close();
    ddp_files_memory_destroy(f->memory);
    ddp_mem_pool_destroy(f->pool);
}

static void reach(struct fixture *f)
{
    CT_CHECK(ddp_fault_point_plain(harness_injector_hook(f->injector),
                                   DDP_FAULT_POINT_CHECKPOINT_KEY) == DDP_FAULT_GO);
}

static uint64_t events(const struct fixture *f)
{
    return f->recorder.page->event_count;
}

static ddp_status write_bytes(struct fixture *f, int handle, size_t size_bytes, size_t *out_written)
{
    return f->files->ops->write(f->files, handle, "0123456789", size_bytes, out_written, &f->err);
}

/* Calls before the point, and `after` calls behind it, are left alone; then `times` calls fail. The
 * fault has fired once the first of them has. */
CT_TEST(inject_io, calls_are_counted_from_the_point)
{
    const struct harness_io_fault io = {
        .is_set = true, .call = HARNESS_IO_WRITE, .error = ENOSPC, .after = 2, .times = 2};
    struct fixture f;
    size_t written = 0;
    int handle = -1;

    open_fixture(&f, &io);
    CT_REQUIRE_OK(f.files->ops->create(f.files, "a", &handle, &f.err));
    CT_CHECK_OK(write_bytes(&f, handle, 4, &written));
    reach(&f);
    for (int i = 0; i < 6; i++) {
        ddp_status status = write_bytes(&f, handle, 4, &written);

        CT_CHECK_EQ_U64(events(&f), i < 2 ? 0 : 1);
        CT_CHECK_STATUS(status, i == 2 || i == 3 ? DDP_E_NO_SPACE : DDP_OK);
        CT_CHECK_EQ_U64(written, status == DDP_OK ? 4 : 0);
    }
    CT_CHECK_STR(f.err.text, "cannot write: No space left on device");
    CT_CHECK_OK(f.files->ops->close(f.files, handle, &f.err));
    close_fixture(&f);
}

/* A disk that fills: a part is taken, the next write and all behind it are refused. */
CT_TEST(inject_io, short_call_comes_before_the_error)
{
    const struct harness_io_fault io = {
        .is_set = true, .call = HARNESS_IO_WRITE, .error = ENOSPC, .after = 1, .is_short = true};
    struct fixture f;
    size_t written = 0;
    int handle = -1;

    open_fixture(&f, &io);
    reach(&f);
    CT_REQUIRE_OK(f.files->ops->create(f.files, "a", &handle, &f.err));
    CT_CHECK_OK(write_bytes(&f, handle, 10, &written));
    CT_CHECK_EQ_U64(written, 10);
    CT_CHECK_OK(write_bytes(&f, handle, 10, &written));
    CT_CHECK_EQ_U64(written, 5);
    for (int i = 0; i < 20; i++) {
        CT_CHECK_STATUS(write_bytes(&f, handle, 10, &written), DDP_E_NO_SPACE);
    }
    CT_CHECK_EQ_U64(events(&f), 1);
    CT_CHECK_OK(f.files->ops->close(f.files, handle, &f.err));
    close_fixture(&f);
}

/* The operating system's files repeat what a signal interrupted: so do these. */
CT_TEST(inject_io, interrupted_calls_are_repeated)
{
    const struct harness_io_fault io = {
        .is_set = true, .call = HARNESS_IO_OPEN, .error = EINTR, .times = 3};
    struct fixture f;
    int handle = -1;

    open_fixture(&f, &io);
    reach(&f);
    CT_REQUIRE_OK(f.files->ops->create(f.files, "a", &handle, &f.err));
    CT_CHECK_EQ_U64(events(&f), 1);
    CT_CHECK_OK(f.files->ops->close(f.files, handle, &f.err));
    close_fixture(&f);
}

/* The folder is synced behind the new name; a file that is read is opened and closed, too. */
CT_TEST(inject_io, renaming_and_reading_make_calls)
{
    static const struct {
        struct harness_io_fault io;
        ddp_status renamed, read;
    } cases[] = {
        {{true, HARNESS_IO_OPEN, EMFILE, 0, false, 1, 0, -1, HARNESS_STRANGER_NONE},
         DDP_E_NO_FD,
         DDP_OK},
        {{true, HARNESS_IO_OPEN, EMFILE, 1, false, 1, 0, -1, HARNESS_STRANGER_NONE},
         DDP_OK,
         DDP_E_NO_FD},
        {{true, HARNESS_IO_FSYNC, EIO, 0, false, 0, 0, -1, HARNESS_STRANGER_NONE},
         DDP_E_IO,
         DDP_OK},
        {{true, HARNESS_IO_READ, EIO, 0, false, 0, 0, -1, HARNESS_STRANGER_NONE}, DDP_OK, DDP_E_IO},
        {{true, HARNESS_IO_CLOSE, EIO, 0, false, 0, 0, -1, HARNESS_STRANGER_NONE}, DDP_OK, DDP_OK}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        void *data = NULL;
        size_t size_bytes = 0;
        ddp_status status;

        open_fixture(&f, &cases[i].io);
        CT_REQUIRE_OK(ddp_files_write_whole(f.files, "a", "text", 4, &f.err));
        reach(&f);
        CT_CHECK_STATUS(f.files->ops->rename(f.files, "a", "b", &f.err), cases[i].renamed);
        status = f.files->ops->read_all(f.files, "b", f.env.mem, &data, &size_bytes, &f.err);
        CT_CHECK_STATUS(status, cases[i].read);
        CT_CHECK(status != DDP_OK || (size_bytes == 4 && memcmp(data, "text", 4) == 0));
        ddp_mem_free(f.env.mem, data);
        close_fixture(&f);
    }
}

/* A rank that no such fault is meant for keeps its files. */
CT_TEST(inject_io, other_ranks_keep_their_files)
{
    const struct harness_io_fault io = {
        .is_set = true, .call = HARNESS_IO_WRITE, .error = ENOSPC, .times = 1};
    struct fixture f;

    open_fixture(&f, &io);
    CT_CHECK(f.files != ddp_files_memory_files(f.memory));
    f.fault.at.rank = 1;
    CT_CHECK(harness_injector_files(f.injector, f.files) == f.files);
    CT_CHECK(harness_inject_preload(&f.plan, 0) == NULL);
    close_fixture(&f);
}

/* Allocations before the point, and so many behind it, succeed; then none does, and the fault has
 * fired once the first of them has failed. What was given can be given back. */
CT_TEST(inject_memory, allocations_fail_for_good)
{
    const struct harness_io_fault none = {.call = HARNESS_IO_WRITE};
    struct fixture f;
    struct ddp_mem *mem;
    void *first, *second;
    uint64_t before;

    open_fixture(&f, &none);
    f.fault.action.kind = HARNESS_ACTION_NO_MEMORY;
    f.fault.action.memory_after = 1;
    harness_inject_close();
    CT_REQUIRE_OK(harness_inject_open(&f.plan, &f.err));
    mem = harness_injector_mem(f.injector);
    first = ddp_mem_array(mem, 4, 1);
    CT_CHECK(first != NULL);
    reach(&f);
    before = events(&f);
    second = ddp_mem_array(mem, 4, 1);
    CT_CHECK(second != NULL && events(&f) == before);
    CT_CHECK(ddp_mem_array(mem, 4, 1) == NULL);
    CT_CHECK_EQ_U64(events(&f), before + 1);
    ddp_mem_free(mem, first);
    ddp_mem_free(mem, second);
    CT_CHECK(ddp_mem_array(mem, 4, 1) == NULL);
    CT_CHECK_EQ_U64(events(&f), before + 1);
    close_fixture(&f);
}

/* So many fail, and those behind them do not. */
CT_TEST(inject_memory, some_allocations_fail)
{
    const struct harness_io_fault none = {.call = HARNESS_IO_WRITE};
    const bool is_given[] = {true, false, false, true, true};
    struct fixture f;
    struct ddp_mem *mem;
    uint64_t before;

    open_fixture(&f, &none);
    f.fault.action.kind = HARNESS_ACTION_NO_MEMORY;
    f.fault.action.memory_after = 1;
    f.fault.action.memory_failures = 2;
    harness_inject_close();
    CT_REQUIRE_OK(harness_inject_open(&f.plan, &f.err));
    mem = harness_injector_mem(f.injector);
    reach(&f);
    before = events(&f);
    for (size_t i = 0; i < sizeof is_given / sizeof is_given[0]; i++) {
        void *data = ddp_mem_array(mem, 4, 1);

        CT_CHECK((data != NULL) == is_given[i]);
        ddp_mem_free(mem, data);
    }
    CT_CHECK_EQ_U64(events(&f), before + 1);
    close_fixture(&f);
}
