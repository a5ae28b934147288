#include "tests/unit/watch/fake_rank.h"

#include <math.h>
#include <string.h>

#include "harness/results/results.h"
#include "tests/ct.h"

void fake_job_open(struct fake_job *job, uint32_t world_size, uint64_t ring_entry_count)
{
    struct ddp_err err = {{0}};

    memset(job, 0, sizeof *job);
    CT_REQUIRE(ddp_mem_pool_create(&job->pool) == DDP_OK);
    CT_REQUIRE(harness_watch_arena_create(world_size, ring_entry_count, &job->arena, &err) ==
               DDP_OK);
    CT_REQUIRE(harness_watch_init(&job->watch, ddp_mem_pool_mem(job->pool), job->arena.head) ==
               DDP_OK);
    harness_findings_init(&job->findings, ddp_mem_pool_mem(job->pool));
    job->limits = (struct harness_watch_limits){.silent_ns = UINT64_C(10000000000),
                                                .attach_ns = UINT64_C(20000000000)};
    job->now_ns = 1000;
}

void fake_job_close(struct fake_job *job)
{
    harness_watch_fini(&job->watch);
    harness_watch_arena_destroy(&job->arena);
    ddp_mem_pool_destroy(job->pool);
}

void fake_job_begin(struct fake_job *job, uint32_t world_size)
{
    fake_job_open(job, world_size, 1024);
    for (uint32_t r = 0; r < world_size; r++) {
        fake_attach(job, r);
        fake_comm(job, r, 0, 1, r, world_size);
    }
}

void fake_report(struct fake_job *job, uint32_t rank, enum guest_event event,
                 const uint64_t arg[GUEST_ARG_COUNT])
{
    struct guest_page *page = guest_arena_page(job->arena.head, rank);
    struct guest_entry *ring = guest_arena_ring(job->arena.head, rank);
    const uint64_t index = ++page->entry_count;
    struct guest_entry *entry = &ring[(index - 1) & (job->arena.head->ring_entry_count - 1)];

    entry->time_ns = job->now_ns;
    entry->place = page->step | (uint64_t)event << 56;
    memcpy(entry->arg, arg, sizeof entry->arg);
    entry->index = index;
    page->alive_ns = job->now_ns;
}

void fake_attach(struct fake_job *job, uint32_t rank)
{
    struct guest_page *page = guest_arena_page(job->arena.head, rank);

    page->pid = 1000 + rank;
    page->threads[0].tid = 1000 + rank;
    fake_state(job, rank, HARNESS_WATCH_RUNNING, 0);
}

void fake_comm(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t key,
               uint32_t comm_rank, uint32_t size)
{
    fake_comm_of(job, rank, place, key, comm_rank, size, GUEST_COMM_HOST);
}

/* told: the rank in it, as COMM tells that. */
static void make_comm(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t key,
                      uint64_t told, uint32_t size, enum guest_comm_kind kind)
{
    struct guest_page *page = guest_arena_page(job->arena.head, rank);
    struct guest_comm *comm = &page->comms[place];

    *comm = (struct guest_comm){
        .is_taken = 1, .handle = place + 1, .key = key, .rank = (uint32_t)told, .size = size};
    memcpy(comm->name, key == 1 ? "world" : "group", 6);
    fake_report(job, rank, GUEST_EVENT_COMM,
                (const uint64_t[GUEST_ARG_COUNT]){place + 1, key, told, size, kind});
}

void fake_comm_of(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t key,
                  uint32_t comm_rank, uint32_t size, enum guest_comm_kind kind)
{
    make_comm(job, rank, place, key, comm_rank, size, kind);
}

void fake_pair(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t key, uint32_t end,
               uint32_t peer)
{
    make_comm(job, rank, place, key, guest_pair_pack(end, 0, peer), 2, GUEST_COMM_PAIR);
}

void fake_comm_free(struct fake_job *job, uint32_t rank, uint32_t place, bool is_aborted)
{
    fake_report(job, rank, GUEST_EVENT_COMM_FREE,
                (const uint64_t[GUEST_ARG_COUNT]){place + 1, 0, is_aborted});
}

void fake_lane(struct fake_job *job, uint32_t rank, uint32_t lane, uint32_t place, uint64_t stream)
{
    guest_arena_page(job->arena.head, rank)->lanes[lane] =
        (struct guest_lane){.is_taken = 1, .comm = place + 1, .stream = stream};
}

void fake_launch(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t first, uint64_t last,
                 uint64_t lane)
{
    fake_report(job, rank, GUEST_EVENT_LAUNCH,
                (const uint64_t[GUEST_ARG_COUNT]){place + 1, first, last, lane});
}

void fake_reach(struct fake_job *job, uint32_t rank, uint32_t lane, uint64_t begun, uint64_t ended)
{
    guest_arena_page(job->arena.head, rank)->lanes[lane].begun = begun;
    guest_arena_page(job->arena.head, rank)->lanes[lane].ended = ended;
}

void fake_step(struct fake_job *job, uint32_t rank, uint32_t step)
{
    guest_arena_page(job->arena.head, rank)->step = step;
    fake_report(job, rank, GUEST_EVENT_STEP, (const uint64_t[GUEST_ARG_COUNT]){0});
}

uint64_t fake_post_op(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t op,
                      uint64_t elem_count, uint64_t bucket)
{
    struct guest_page *page = guest_arena_page(job->arena.head, rank);
    struct guest_entry *ring = guest_arena_ring(job->arena.head, rank);
    struct guest_comm *comm = &page->comms[place];

    comm->posted++;
    fake_report(job, rank, GUEST_EVENT_POST,
                (const uint64_t[GUEST_ARG_COUNT]){place + 1, comm->posted, op, elem_count, bucket});
    ring[(page->entry_count - 1) & (job->arena.head->ring_entry_count - 1)].thread =
        page->threads[0].messages << 32;
    page->threads[0].messages = 0;
    return comm->posted;
}

uint64_t fake_post(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t elem_count,
                   uint64_t bucket)
{
    return fake_post_op(
        job, rank, place,
        guest_op_pack(DDPROVE_GUEST_ALL_REDUCE, DDPROVE_GUEST_F32, DDPROVE_GUEST_SUM, 0),
        elem_count, bucket);
}

void fake_value(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t seq, bool is_in,
                double value)
{
    const double magnitude = fabs(value);
    uint64_t bits[2];

    memcpy(&bits[0], &value, sizeof value);
    memcpy(&bits[1], &magnitude, sizeof magnitude);
    fake_report(job, rank, is_in ? GUEST_EVENT_VALUE_IN : GUEST_EVENT_VALUE_OUT,
                (const uint64_t[GUEST_ARG_COUNT]){place + 1, seq, bits[0], bits[1], bits[0]});
}

void fake_done(struct fake_job *job, uint32_t rank, uint32_t place, uint64_t seq)
{
    fake_report(job, rank, GUEST_EVENT_DONE, (const uint64_t[GUEST_ARG_COUNT]){place + 1, seq});
}

void fake_wait(struct fake_job *job, uint32_t rank, uint32_t thread, uint32_t place, uint64_t seq)
{
    struct guest_thread *waiter = &guest_arena_page(job->arena.head, rank)->threads[thread];

    waiter->tid = 1000 + rank + 100 * (uint64_t)thread;
    waiter->comm = seq != 0 ? place + 1 : 0;
    waiter->seq = seq;
    waiter->enter_ns = job->now_ns;
    waiter->polled_ns = 0;
}

void fake_poll(struct fake_job *job, uint32_t rank, uint32_t thread, uint32_t place, uint64_t seq)
{
    struct guest_thread *waiter = &guest_arena_page(job->arena.head, rank)->threads[thread];

    if (waiter->polled_ns == 0 || waiter->seq != seq || waiter->comm != place + 1) {
        fake_wait(job, rank, thread, place, seq);
    }
    waiter->polled_ns = job->now_ns;
}

void fake_message(struct fake_job *job, uint32_t rank, uint64_t what)
{
    guest_arena_page(job->arena.head, rank)->threads[0].messages++;
    fake_wait(job, rank, 0, 0, what);
}

void fake_detach(struct fake_job *job, uint32_t rank)
{
    guest_arena_page(job->arena.head, rank)->is_ended = 1;
}

void fake_state(struct fake_job *job, uint32_t rank, enum harness_watch_state state, int code)
{
    job->watch.ranks[rank].state = state;
    job->watch.ranks[rank].code = code;
    job->watch.ranks[rank].since_ns = job->now_ns;
}

size_t fake_look(struct fake_job *job, uint64_t later_ns)
{
    job->now_ns += later_ns;
    harness_watch_read(&job->watch, job->now_ns);
    harness_watch_analyse(&job->watch, &job->limits, &job->findings);
    harness_results_judge(&job->watch, &job->findings);
    CT_CHECK(!job->watch.is_failed);
    return job->findings.count;
}

const struct harness_finding *fake_only(const struct fake_job *job, enum harness_verdict verdict,
                                        const char *culprits)
{
    static const struct harness_finding none;
    char text[HARNESS_RANKS_TEXT_BYTES];

    if (job->findings.count != 1) {
        CT_FAIL("%zu findings", job->findings.count);
        return &none;
    }
    CT_CHECK_STR(harness_verdict_name(job->findings.items[0].verdict),
                 harness_verdict_name(verdict));
    CT_CHECK_STR(harness_rank_set_text(&job->findings.items[0].culprits, text), culprits);
    return &job->findings.items[0];
}
