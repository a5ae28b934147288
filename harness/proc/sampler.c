/* The eye on a running job. It only reads; a rank cannot tell whether it is watched. States of
 * processes are read before pages, so that the page of a rank seen as ended is its last word. */
#include "harness/proc/sampler.h"

#include <string.h>

ddp_status proc_eye_init(struct proc_eye *eye, struct ddp_mem *mem, const struct harness_plan *plan,
                         const struct harness_program *program, struct proc_head *head)
{
    size_t n = (size_t)head->world_size;

    *eye = (struct proc_eye){.mem = mem, .plan = plan, .program = program, .head = head};
    harness_watch_init(&eye->watch, mem);
    eye->pages = ddp_mem_array(mem, n, sizeof(*eye->pages));
    eye->processes = ddp_mem_array(mem, n, sizeof(*eye->processes));
    eye->is_page_valid = ddp_mem_array(mem, n, sizeof(*eye->is_page_valid));
    eye->change = ddp_mem_array(mem, n, sizeof(*eye->change));
    eye->progress = ddp_mem_array(mem, n, sizeof(*eye->progress));
    eye->progress_ns = ddp_mem_array(mem, n, sizeof(*eye->progress_ns));
    eye->lags = ddp_mem_array(mem, n, sizeof(*eye->lags));
    eye->starved_ns = ddp_mem_array(mem, n, sizeof(*eye->starved_ns));
    eye->histories = ddp_mem_array(mem, n, sizeof(*eye->histories));
    if (eye->lags == NULL || eye->starved_ns == NULL || eye->histories == NULL ||
        eye->pages == NULL || eye->processes == NULL || eye->is_page_valid == NULL ||
        eye->change == NULL || eye->progress == NULL || eye->progress_ns == NULL) {
        proc_eye_fini(eye);
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

void proc_eye_fini(struct proc_eye *eye)
{
    harness_watch_fini(&eye->watch);
    ddp_mem_free(eye->mem, eye->pages);
    ddp_mem_free(eye->mem, eye->processes);
    ddp_mem_free(eye->mem, eye->is_page_valid);
    ddp_mem_free(eye->mem, eye->change);
    ddp_mem_free(eye->mem, eye->progress);
    ddp_mem_free(eye->mem, eye->progress_ns);
    ddp_mem_free(eye->mem, eye->lags);
    ddp_mem_free(eye->mem, eye->starved_ns);
    ddp_mem_free(eye->mem, eye->histories);
    *eye = (struct proc_eye){.mem = eye->mem};
}

static const struct ddp_page *shared_page(const struct proc_eye *eye, uint32_t rank)
{
    return (const struct ddp_page *)proc_recorder(eye->head, rank);
}

/* Copy a rank's page. False: it is being written just now, and the previous copy stays. */
static bool read_page(struct proc_eye *eye, uint32_t rank)
{
    const struct ddp_page *shared = shared_page(eye, rank);
    struct ddp_page copy;

    if (__atomic_load_n(&shared->magic, __ATOMIC_ACQUIRE) != DDP_PAGE_MAGIC) {
        return true;
    }
    if (ddp_page_read(shared, &copy)) {
        eye->pages[rank] = copy;
        eye->is_page_valid[rank] = true;
        return true;
    }
    if (eye->processes[rank].state == HARNESS_PROCESS_RUNNING) {
        return false;
    }
    /* Ended or stopped in the middle of a write: nobody will finish it; what is there counts. */
    memcpy(&eye->pages[rank], shared, sizeof(copy));
    eye->is_page_valid[rank] = true;
    return true;
}

/* Copy a rank's progress words. False: they move just now, and the previous copy stays. */
static bool read_progress(struct proc_eye *eye, uint32_t rank, uint64_t now_ns)
{
    struct ddp_progress copy;

    if (!eye->is_page_valid[rank]) {
        return true;
    }
    if (!ddp_progress_read(ddp_recorder_progress_of(shared_page(eye, rank)), &copy)) {
        return false;
    }
    if (!ddp_progress_is_equal(&copy, &eye->progress[rank])) {
        eye->progress[rank] = copy;
        eye->progress_ns[rank] = now_ns;
        eye->change_ns = now_ns;
    }
    return true;
}

/* Neither the rank's page nor its words have moved since they were copied. */
static bool is_unmoved(const struct proc_eye *eye, uint32_t rank)
{
    const struct ddp_page *shared = shared_page(eye, rank);
    struct ddp_progress again;

    return !eye->is_page_valid[rank] ||
           (__atomic_load_n(&shared->change, __ATOMIC_ACQUIRE) == eye->change[rank] &&
            ddp_progress_read(ddp_recorder_progress_of(shared), &again) &&
            ddp_progress_is_equal(&again, &eye->progress[rank]));
}

static void read_history(struct proc_eye *eye, uint32_t rank)
{
    harness_history_follow(&eye->histories[rank], eye->program,
                           ddp_recorder_ring(shared_page(eye, rank)), eye->head->ring_entry_count,
                           &eye->pages[rank]);
}

static void read_lag(struct proc_eye *eye, const struct harness_cut *cut, uint32_t rank)
{
    eye->starved_ns[rank] =
        eye->processes[rank].state == HARNESS_PROCESS_RUNNING
            ? proc_lag_look(&eye->lags[rank], (pid_t)eye->head->states[rank].pid,
                            harness_monitor_alive_ns(cut, rank), cut->now_ns)
            : 0;
}

void proc_eye_look(struct proc_eye *eye, uint64_t now_ns)
{
    uint32_t world_size = (uint32_t)eye->head->world_size;
    struct harness_findings findings;
    struct harness_cut cut = {.world_size = world_size,
                              .now_ns = now_ns,
                              .pages = eye->pages,
                              .processes = eye->processes,
                              .is_page_valid = eye->is_page_valid,
                              .progress = eye->progress,
                              .progress_ns = eye->progress_ns,
                              .starved_ns = eye->starved_ns,
                              .is_stable = true};

    for (uint32_t r = 0; r < world_size; r++) {
        eye->processes[r] = proc_state_load(&eye->head->states[r]);
    }
    for (uint32_t r = 0; r < world_size; r++) {
        cut.is_stable = read_page(eye, r) && cut.is_stable;
        if (eye->pages[r].change != eye->change[r]) {
            eye->change[r] = eye->pages[r].change;
            eye->change_ns = now_ns;
        }
        cut.is_stable = read_progress(eye, r, now_ns) && cut.is_stable;
        if (eye->is_page_valid[r]) {
            read_history(eye, r);
        }
    }
    for (uint32_t r = 0; r < world_size; r++) {
        cut.is_stable = cut.is_stable && is_unmoved(eye, r);
    }
    for (uint32_t r = 0; r < world_size; r++) {
        read_lag(eye, &cut, r);
    }
    cut.change_ns = eye->change_ns;
    harness_findings_init(&findings, eye->mem);
    harness_monitor_analyse(eye->plan, eye->program, &cut, &findings);
    harness_watch_note(&eye->watch, &findings, now_ns);
    harness_findings_fini(&findings);
    /* Last: what was concluded has been told by now. */
    if (eye->picture != NULL) {
        harness_picture_take(eye->picture, eye->plan, eye->program, &cut, &eye->watch);
    }
}
