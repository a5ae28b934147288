/* The memory of a job in the proc driver, with the launcher, a rank and the monitor as threads of
 * one process: what each writes and the sampler reads passes under ThreadSanitizer. Real processes:
 * test_proc.c. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "harness/proc/sampler.h"
#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { RANKS = 2, RING_ENTRIES = 64, STEPS = 2000, EXIT_CODE = 3 };

struct shared_job {
    struct cut_job cut; /* plan and program */
    struct harness_proc_head *head;
    uint64_t sample_count;
    uint32_t wrong;
    struct harness_proc_sampler sampler;
};

static void job_open(struct shared_job *job)
{
    size_t offset_bytes = (sizeof(struct harness_proc_head) + 4095) & ~(size_t)4095;
    size_t stride_bytes = ddp_recorder_size_bytes(RING_ENTRIES);
    size_t size_bytes = (offset_bytes + RANKS * stride_bytes + 4095) & ~(size_t)4095;

    memset(job, 0, sizeof(*job));
    cut_init(&job->cut, RANKS);
    job->head = aligned_alloc(4096, size_bytes);
    DDP_ASSERT(job->head != NULL);
    memset(job->head, 0, size_bytes);
    job->head->world_size = RANKS;
    job->head->ring_entry_count = RING_ENTRIES;
    job->head->recorder_offset_bytes = offset_bytes;
    job->head->recorder_stride_bytes = stride_bytes;
    CT_CHECK_OK(harness_proc_sampler_init(&job->sampler, ddp_mem_system(), &job->cut.plan,
                                          &job->cut.program, NULL, job->head));
}

static void job_close(struct shared_job *job)
{
    harness_proc_sampler_fini(&job->sampler);
    cut_fini(&job->cut);
    free(job->head);
}

/* The next mark of a stream, which its device reaches at once. */
static void pass_mark(struct ddp_progress *progress, enum ddp_progress_stream stream,
                      enum ddp_mark mark, uint64_t index)
{
    __atomic_store_n(&progress->stream[stream].reached,
                     ddp_progress_next(progress, stream, mark, index), __ATOMIC_RELEASE);
}

/* Rank 0 trains, and is killed in the middle of a write to its page. */
static void *run_rank(void *self)
{
    struct shared_job *job = self;
    struct ddp_event_op op = {.kind = DDP_COLL_ALL_REDUCE};
    struct ddp_recorder recorder;
    struct ddp_progress *progress;

    ddp_recorder_init(&recorder, harness_proc_recorder(job->head, 0), RING_ENTRIES,
                      ddp_clock_monotonic(), 0, RANKS, 1);
    progress = ddp_recorder_progress(&recorder);
    ddp_progress_set_mapped(progress, true);
    for (uint32_t step = 0; step < STEPS; step++) {
        ddp_recorder_step(&recorder, step, 0);
        pass_mark(progress, DDP_PROGRESS_COMPUTE, DDP_MARK_FORWARD, step);
        ddp_recorder_phase(&recorder, DDP_PHASE_BACKWARD);
        ddp_recorder_collective_posted(&recorder, 0, step + 1, ddp_event_op_pack(&op), step);
        pass_mark(progress, DDP_PROGRESS_COMM, DDP_MARK_COLL, step + 1);
        ddp_recorder_wait_begin(&recorder, DDP_WAIT_COLLECTIVE, step + 1);
        ddp_recorder_wait_peer(&recorder, 1);
        ddp_recorder_message(&recorder);
        ddp_recorder_wait_end(&recorder);
        ddp_recorder_collective_done(&recorder, step + 1);
    }
    __atomic_store_n(&recorder.page->change, recorder.page->change + 1, __ATOMIC_RELAXED);
    return NULL;
}

/* As the monitor process does, and see that a state never comes with the time of an older one. */
static void *run_monitor(void *self)
{
    struct shared_job *job = self;
    bool is_over;

    do {
        is_over = __atomic_load_n(&job->head->is_over, __ATOMIC_ACQUIRE) != 0;
        harness_proc_heartbeat_store(job->head, ddp_clock_now_ns(ddp_clock_monotonic()), false);
        harness_sampler_take(&job->sampler.base, ddp_clock_now_ns(ddp_clock_monotonic()), true);
        job->wrong +=
            job->sampler.base.processes[1].since_ns < (uint64_t)job->sampler.base.processes[1].code;
        (void)__atomic_add_fetch(&job->sample_count, 1, __ATOMIC_RELAXED);
    } while (!is_over);
    return NULL;
}

static void set_state(struct shared_job *job, uint32_t rank, enum harness_process_state state,
                      int code, uint64_t since_ns)
{
    const struct harness_process process = {.state = state, .code = code, .since_ns = since_ns};

    harness_proc_state_store(&job->head->states[rank], &process);
}

/* Until the monitor has taken so many samples more. Orders nothing. */
static void await_samples(struct shared_job *job, uint64_t count)
{
    uint64_t end = __atomic_load_n(&job->sample_count, __ATOMIC_RELAXED) + count;

    while (__atomic_load_n(&job->sample_count, __ATOMIC_RELAXED) < end) {
        (void)sched_yield();
    }
}

/* The sampler reads pages and states while they are written. Once a rank is seen as ended, the copy
 * of its page is final, even if the rank died in the middle of a write. */
CT_TEST(proc_threads, sampler_reads_while_others_write)
{
    struct shared_job job;
    pthread_t rank, monitor;
    uint64_t heartbeat_ns = 0;

    job_open(&job);
    set_state(&job, 0, HARNESS_PROCESS_RUNNING, 0, 1);
    CT_REQUIRE(pthread_create(&monitor, NULL, run_monitor, &job) == 0);
    await_samples(&job, 1);
    CT_REQUIRE(pthread_create(&rank, NULL, run_rank, &job) == 0);
    for (int i = 1; i <= STEPS; i++) {
        set_state(&job, 1, i % 2 == 0 ? HARNESS_PROCESS_STOPPED : HARNESS_PROCESS_RUNNING, i,
                  (uint64_t)i);
        CT_CHECK(harness_proc_heartbeat_load(job.head) >=
                 heartbeat_ns); /* as the launcher does: never goes back */
        heartbeat_ns = harness_proc_heartbeat_load(job.head);
        (void)sched_yield();
    }
    (void)pthread_join(rank, NULL);
    set_state(&job, 0, HARNESS_PROCESS_EXITED, EXIT_CODE, 2);
    await_samples(&job, 2); /* is_over would order what the state alone has to */
    __atomic_store_n(&job.head->is_over, 1, __ATOMIC_RELEASE);
    (void)pthread_join(monitor, NULL);
    CT_CHECK_EQ_U64(job.wrong, 0);
    CT_CHECK(heartbeat_ns > 0);
    CT_CHECK(job.sampler.base.processes[0].state == HARNESS_PROCESS_EXITED);
    CT_CHECK(job.sampler.base.processes[0].code == EXIT_CODE &&
             job.sampler.base.processes[0].since_ns == 2);
    CT_CHECK(job.sampler.base.processes[1].code == STEPS &&
             job.sampler.base.processes[1].since_ns == STEPS);
    CT_CHECK(job.sampler.base.is_page_valid[0] && !job.sampler.base.is_page_valid[1]);
    CT_CHECK_EQ_U64(job.sampler.base.pages[0].step, STEPS - 1);
    CT_CHECK_EQ_U64(job.sampler.base.pages[0].change % 2, 1);
    CT_CHECK_EQ_U64(job.sampler.base.progress[0].is_mapped, 1);
    CT_CHECK_EQ_U64(job.sampler.base.progress[0].stream[DDP_PROGRESS_COMPUTE].reached,
                    ddp_mark_pack(STEPS, DDP_MARK_FORWARD, STEPS - 1));
    CT_CHECK_EQ_U64(job.sampler.base.progress[0].stream[DDP_PROGRESS_COMM].reached,
                    ddp_mark_pack(STEPS, DDP_MARK_COLL, STEPS));
    CT_CHECK(job.sampler.base.progress_ns[0] > 0 && job.sampler.base.progress[1].is_mapped == 0);
    job_close(&job);
}

/* Both ranks wait for the same bucket since the start; rank 1's forward kernel does not end. */
static void open_stuck(struct shared_job *job, struct ddp_clock_virtual *clock,
                       struct ddp_recorder *recorders)
{
    ddp_clock_virtual_init(clock, CUT_MS);
    job_open(job);
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct ddp_page *planned = &job->cut.pages[r];
        struct ddp_progress *progress;

        set_state(job, r, HARNESS_PROCESS_RUNNING, 0, 1);
        ddp_recorder_init(&recorders[r], harness_proc_recorder(job->head, r), RING_ENTRIES,
                          &clock->base, r, RANKS, 1);
        ddp_recorder_step(&recorders[r], 1, 0);
        ddp_recorder_phase(&recorders[r], DDP_PHASE_BACKWARD);
        ddp_recorder_collective_posted(&recorders[r], 0, planned->seq_posted, planned->posted_op,
                                       planned->posted_count);
        ddp_recorder_wait_begin(&recorders[r], DDP_WAIT_COLLECTIVE, planned->seq_posted);
        progress = ddp_recorder_progress(&recorders[r]);
        ddp_progress_set_mapped(progress, true);
        pass_mark(progress, DDP_PROGRESS_COMPUTE, DDP_MARK_FORWARD, 0);
        (void)ddp_progress_next(progress, DDP_PROGRESS_COMPUTE, DDP_MARK_IDLE, 0);
        if (r == 0) {
            progress->stream[DDP_PROGRESS_COMPUTE].reached =
                progress->stream[DDP_PROGRESS_COMPUTE].enqueued;
            pass_mark(progress, DDP_PROGRESS_COMM, DDP_MARK_COLL, planned->seq_posted);
        } else {
            (void)ddp_progress_next(progress, DDP_PROGRESS_COMM, DDP_MARK_COLL,
                                    planned->seq_posted);
        }
    }
}

/* A sample every 100 ms: nobody pauses. Not at to_ms itself. */
static void watch(struct shared_job *job, uint64_t from_ms, uint64_t to_ms)
{
    for (uint64_t ms = from_ms; ms < to_ms; ms += 100) {
        harness_sampler_take(&job->sampler.base, ms * CUT_MS, true);
    }
}

static struct ddp_recorder *faulting; /* [RANKS] */

/* The sampler has read rank 0's words and not yet rank 1's page: now rank 0's move. */
static void move_on(int signal_number)
{
    (void)signal_number;
    (void)mprotect(faulting[1].page, 4096, PROT_READ | PROT_WRITE);
    pass_mark(faulting[0].progress, DDP_PROGRESS_COMM, DDP_MARK_COLL_END, 0);
}

/* A word that moved since it was copied makes the cut unstable: nothing follows from it. */
CT_TEST(proc_threads, sampler_reads_words_twice)
{
    struct sigaction action = {.sa_handler = move_on};
    struct sigaction before;
    struct shared_job job;
    struct ddp_recorder recorders[RANKS];
    struct ddp_clock_virtual clock;

    open_stuck(&job, &clock, recorders);
    watch(&job, 2, 2000);
    faulting = recorders;
    CT_REQUIRE(sigaction(SIGSEGV, &action, &before) == 0);
    CT_REQUIRE(mprotect(recorders[1].page, 4096, PROT_NONE) == 0);
    harness_sampler_take(&job.sampler.base, 2100 * CUT_MS, true);
    CT_CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    CT_CHECK_EQ_U64(job.sampler.base.conclusions.candidates.count, 0);
    harness_sampler_take(&job.sampler.base, 2101 * CUT_MS, true);
    CT_CHECK_EQ_U64(job.sampler.base.conclusions.candidates.count, 1);
    CT_CHECK_EQ_U64(job.sampler.base.progress_ns[0], 2101 * CUT_MS);
    job_close(&job);
}

/* A word that moves is a sign of life, although no page changes: the budget starts anew. */
CT_TEST(proc_threads, moving_words_are_a_sign_of_life)
{
    enum { BUDGET_MS = 2000 };
    struct shared_job job;
    struct ddp_recorder recorders[RANKS];
    struct ddp_clock_virtual clock;
    const struct harness_finding *said;
    struct ddp_progress *progress;

    open_stuck(&job, &clock, recorders);
    progress = ddp_recorder_progress(&recorders[1]);
    harness_sampler_take(&job.sampler.base, 2 * CUT_MS, true);
    CT_CHECK(job.sampler.base.progress_ns[1] == 2 * CUT_MS &&
             job.sampler.base.change_ns == 2 * CUT_MS);
    watch(&job, 100, 1000);
    pass_mark(progress, DDP_PROGRESS_COMPUTE, DDP_MARK_FORWARD, 1);
    (void)ddp_progress_next(progress, DDP_PROGRESS_COMPUTE, DDP_MARK_IDLE, 0);
    harness_sampler_take(&job.sampler.base, 1000 * CUT_MS, true);
    CT_CHECK(job.sampler.base.progress_ns[1] == 1000 * CUT_MS &&
             job.sampler.base.change_ns == 1000 * CUT_MS);
    watch(&job, 1100, BUDGET_MS + 10);
    for (uint64_t ms = BUDGET_MS + 10; ms <= BUDGET_MS + 1000; ms += 90) {
        harness_sampler_take(&job.sampler.base, ms * CUT_MS, true);
        CT_CHECK_EQ_U64(job.sampler.base.conclusions.reported.count, 0);
    }
    for (uint64_t ms = BUDGET_MS + 1001; ms <= BUDGET_MS + 1011; ms += 10) {
        harness_sampler_take(&job.sampler.base, ms * CUT_MS, true);
    }
    CT_REQUIRE(job.sampler.base.conclusions.reported.count == 1);
    said = &job.sampler.base.conclusions.reported.items[0].finding;
    CT_CHECK_EQ_U64(said->verdict, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    cut_check_culprit(said, 1);
    CT_CHECK(strstr(said->text, "forward layer 1") != NULL);
    job_close(&job);
}
