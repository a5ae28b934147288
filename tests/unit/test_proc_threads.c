/* The memory of a job in the proc driver, with the launcher, a rank and the monitor as threads of
 * one process: what each writes and the eye reads passes under ThreadSanitizer. Real processes:
 * test_proc.c. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "harness/launch/proc_eye.h"
#include "tests/ct.h"
#include "tests/unit/monitor_cut.h"

enum { RANKS = 2, RING_ENTRIES = 64, STEPS = 2000, EXIT_CODE = 3 };

struct shared_job {
    struct cut_job cut; /* plan and program */
    struct proc_head *head;
    uint64_t look_count;
    uint32_t wrong;
    struct proc_eye eye;
};

static void job_open(struct shared_job *job)
{
    size_t offset_bytes = (sizeof(struct proc_head) + 4095) & ~(size_t)4095;
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
    CT_CHECK_OK(
        proc_eye_init(&job->eye, ddp_mem_system(), &job->cut.plan, &job->cut.program, job->head));
}

static void job_close(struct shared_job *job)
{
    proc_eye_fini(&job->eye);
    cut_fini(&job->cut);
    free(job->head);
}

/* Rank 0 trains, and is killed in the middle of a write to its page. */
static void *run_rank(void *self)
{
    struct shared_job *job = self;
    struct ddp_event_op op = {.kind = DDP_COLL_ALL_REDUCE};
    struct ddp_recorder recorder;

    ddp_recorder_init(&recorder, proc_recorder(job->head, 0), RING_ENTRIES, ddp_clock_monotonic(),
                      0, RANKS, 1);
    for (uint32_t step = 0; step < STEPS; step++) {
        ddp_recorder_step(&recorder, step, 0);
        ddp_recorder_phase(&recorder, DDP_PHASE_BACKWARD);
        ddp_recorder_collective_posted(&recorder, 0, step + 1, ddp_event_op_pack(&op), step);
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
        proc_beat_store(job->head, ddp_clock_now_ns(ddp_clock_monotonic()));
        proc_eye_look(&job->eye, ddp_clock_now_ns(ddp_clock_monotonic()));
        job->wrong += job->eye.processes[1].since_ns < (uint64_t)job->eye.processes[1].code;
        (void)__atomic_add_fetch(&job->look_count, 1, __ATOMIC_RELAXED);
    } while (!is_over);
    return NULL;
}

static void set_state(struct shared_job *job, uint32_t rank, enum harness_process_state state,
                      int code, uint64_t since_ns)
{
    const struct harness_process process = {.state = state, .code = code, .since_ns = since_ns};

    proc_state_store(&job->head->states[rank], &process);
}

/* Until the monitor has looked so many times more. Orders nothing. */
static void await_looks(struct shared_job *job, uint64_t count)
{
    uint64_t end = __atomic_load_n(&job->look_count, __ATOMIC_RELAXED) + count;

    while (__atomic_load_n(&job->look_count, __ATOMIC_RELAXED) < end) {
        (void)sched_yield();
    }
}

/* The eye reads pages and states while they are written; once it sees a rank as ended, the page it
 * has is the rank's last word, whole or not. */
CT_TEST(proc_threads, eye_reads_while_others_write)
{
    struct shared_job job;
    pthread_t rank, monitor;
    uint64_t beat_ns = 0;

    job_open(&job);
    set_state(&job, 0, HARNESS_PROCESS_RUNNING, 0, 1);
    CT_REQUIRE(pthread_create(&monitor, NULL, run_monitor, &job) == 0);
    await_looks(&job, 1);
    CT_REQUIRE(pthread_create(&rank, NULL, run_rank, &job) == 0);
    for (int i = 1; i <= STEPS; i++) {
        set_state(&job, 1, i % 2 == 0 ? HARNESS_PROCESS_STOPPED : HARNESS_PROCESS_RUNNING, i,
                  (uint64_t)i);
        CT_CHECK(proc_beat_load(job.head) >= beat_ns); /* as the launcher does: never goes back */
        beat_ns = proc_beat_load(job.head);
        (void)sched_yield();
    }
    (void)pthread_join(rank, NULL);
    set_state(&job, 0, HARNESS_PROCESS_EXITED, EXIT_CODE, 2);
    await_looks(&job, 2); /* is_over would order what the state alone has to */
    __atomic_store_n(&job.head->is_over, 1, __ATOMIC_RELEASE);
    (void)pthread_join(monitor, NULL);
    CT_CHECK_EQ_U64(job.wrong, 0);
    CT_CHECK(beat_ns > 0);
    CT_CHECK(job.eye.processes[0].state == HARNESS_PROCESS_EXITED);
    CT_CHECK(job.eye.processes[0].code == EXIT_CODE && job.eye.processes[0].since_ns == 2);
    CT_CHECK(job.eye.processes[1].code == STEPS && job.eye.processes[1].since_ns == STEPS);
    CT_CHECK(job.eye.is_page_valid[0] && !job.eye.is_page_valid[1]);
    CT_CHECK_EQ_U64(job.eye.pages[0].step, STEPS - 1);
    CT_CHECK_EQ_U64(job.eye.pages[0].change % 2, 1);
    job_close(&job);
}
