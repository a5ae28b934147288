/* The work queue, under an engine that does as the test says. */
#include <string.h>

#include "ddpcore/collective/queue.h"
#include "tests/ct.h"
#include "tests/unit/collective/coll_world.h"

#define WORKS 3

struct toy {
    struct ddp_queue queue;
    ddp_status prepared, ahead, head; /* what its slots return */
    ddp_status unexplained;           /* OK: no error may be a death */
    bool is_busy;                     /* kernels run */
    uint64_t released[WORKS];         /* seq, in order */
    uint32_t released_count, stopped_count;
    struct ddp_coll_work works[WORKS];
};

static ddp_status toy_prepare(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    struct toy *toy = (struct toy *)queue;

    work->engine = toy->prepared == DDP_OK ? toy : NULL;
    return toy->prepared;
}

static void toy_release(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    struct toy *toy = (struct toy *)queue;

    CT_CHECK(work == queue->head);
    toy->released[toy->released_count++] = work->seq;
}

static ddp_status toy_run_ahead(struct ddp_queue *queue)
{
    return ((struct toy *)queue)->ahead;
}

static ddp_status toy_run_head(struct ddp_queue *queue, struct ddp_coll_work *head)
{
    CT_CHECK(head == queue->head && head->status == DDP_PENDING);
    return ((struct toy *)queue)->head;
}

static bool toy_may_be_death(struct ddp_queue *queue, ddp_status error, ddp_status *out_unexplained)
{
    const struct toy *toy = (const struct toy *)queue;

    *out_unexplained = toy->unexplained != DDP_OK ? toy->unexplained : error;
    return toy->unexplained != DDP_OK;
}

static void toy_stop(struct ddp_queue *queue, ddp_status status)
{
    CT_CHECK_STATUS(queue->failed, status);
    ((struct toy *)queue)->stopped_count++;
}

static bool toy_is_quiet(struct ddp_queue *queue)
{
    return !((struct toy *)queue)->is_busy;
}

static void toy_destroy(struct ddp_queue *queue)
{
    struct ddp_mem *mem = queue->base.env->mem;

    ((struct toy *)queue)->is_busy = false;
    ddp_queue_fail(queue, DDP_E_STATE);
    queue->transport->ops->destroy(queue->transport);
    ddp_queue_fini(queue);
    ddp_mem_free(mem, queue);
}

static const struct ddp_engine toy_engine = {.starts_at_post = true,
                                             .announces_errors = true,
                                             .prepare = toy_prepare,
                                             .release = toy_release,
                                             .run_ahead = toy_run_ahead,
                                             .run_head = toy_run_head,
                                             .may_be_death = toy_may_be_death,
                                             .stop = toy_stop,
                                             .is_quiet = toy_is_quiet,
                                             .destroy = toy_destroy};

static ddp_status make(void *context, struct coll_rank *rank, struct ddp_transport *transport)
{
    struct toy *toy = ddp_mem_array(rank->env.mem, 1, sizeof(*toy));

    (void)context;
    CT_CHECK_OK(
        ddp_queue_init(&toy->queue, &toy_engine, &rank->env, rank->device, transport, 42, NULL));
    toy->head = DDP_PENDING;
    rank->coll = &toy->queue.base;
    return DDP_OK;
}

static struct toy *toy_of(struct coll_world *world, uint32_t rank)
{
    return (struct toy *)ddp_queue_of(world->ranks[rank].coll, &toy_engine);
}

static void open_world(struct coll_world *world)
{
    const struct coll_world_options options = {.make = make};

    CT_REQUIRE(coll_world_open(world, 2, &options));
}

static ddp_status post(struct toy *toy, uint32_t index)
{
    struct ddp_coll_work *work = &toy->works[index];

    work->args.kind = DDP_COLL_BARRIER;
    work->seq = index + 1;
    return toy->queue.base.ops->post(&toy->queue.base, work);
}

static ddp_status poll(struct toy *toy, uint32_t index)
{
    return toy->queue.base.ops->poll(&toy->queue.base, &toy->works[index]);
}

static void pass_ns(struct coll_world *world, uint64_t ns)
{
    ddp_clock_virtual_advance_to(&world->clock, world->clock.time_ns + ns);
}

CT_TEST(queue, works_end_in_order_and_each_once)
{
    struct coll_world world;
    struct toy *toy;

    open_world(&world);
    toy = toy_of(&world, 0);
    for (uint32_t i = 0; i < WORKS; i++) {
        CT_CHECK_OK(post(toy, i));
        CT_CHECK_STATUS(toy->works[i].status, DDP_PENDING);
    }
    toy->head = DDP_OK;
    CT_CHECK_OK(poll(toy, 2));
    toy->head = DDP_E_SYSTEM; /* not asked any more */
    CT_CHECK_OK(poll(toy, 0));
    CT_CHECK_EQ_U64(toy->released_count, WORKS);
    for (uint32_t i = 0; i < WORKS; i++) {
        CT_CHECK_OK(toy->works[i].status);
        CT_CHECK_EQ_U64(toy->released[i], i + 1);
    }
    coll_world_close(&world);
}

/* The other member's next poll ends with the revocation. */
CT_TEST(queue, an_error_ends_all_works_and_is_announced)
{
    struct coll_world world;
    struct ddp_revocation revocation;
    struct toy *toy;

    open_world(&world);
    toy = toy_of(&world, 0);
    CT_CHECK_OK(post(toy, 0));
    CT_CHECK_OK(post(toy, 1));
    CT_CHECK_OK(post(toy_of(&world, 1), 0));
    toy->head = DDP_E_SYSTEM;
    CT_CHECK_STATUS(poll(toy, 1), DDP_E_SYSTEM);
    CT_CHECK_STATUS(toy->works[0].status, DDP_E_SYSTEM);
    CT_CHECK_STATUS(post(toy, 2), DDP_E_SYSTEM);
    CT_CHECK_EQ_U64(toy->released_count, 2);
    CT_CHECK_EQ_U64(toy->stopped_count, 1);
    CT_CHECK(toy->queue.base.ops->is_revoked(&toy->queue.base, &revocation));
    CT_CHECK_STATUS(revocation.status, DDP_E_SYSTEM);
    CT_CHECK_EQ_U64(revocation.detail, 1); /* the head's number */
    pass_ns(&world, DDP_NS_PER_MS);
    CT_CHECK_STATUS(poll(toy_of(&world, 1), 0), DDP_E_REVOKED);
    coll_world_close(&world);
}

CT_TEST(queue, a_complete_head_stays_complete_if_a_later_work_fails)
{
    struct coll_world world;
    struct toy *toy;

    open_world(&world);
    toy = toy_of(&world, 0);
    CT_CHECK_OK(post(toy, 0));
    toy->head = DDP_OK;
    toy->ahead = DDP_E_DEVICE;
    CT_CHECK_OK(poll(toy, 0));
    CT_CHECK_STATUS(toy->queue.failed, DDP_E_DEVICE);
    CT_CHECK_STATUS(post(toy, 1), DDP_E_DEVICE);
    coll_world_close(&world);
}

CT_TEST(queue, works_do_not_end_while_their_buffers_are_used)
{
    struct coll_world world;
    struct toy *toy;

    open_world(&world);
    toy = toy_of(&world, 0);
    CT_CHECK_OK(post(toy, 0));
    toy->is_busy = true;
    toy->head = DDP_E_SYSTEM;
    CT_CHECK_STATUS(poll(toy, 0), DDP_PENDING);
    CT_CHECK_STATUS(post(toy, 1), DDP_E_SYSTEM);
    CT_CHECK_STATUS(poll(toy, 0), DDP_PENDING);
    CT_CHECK_EQ_U64(toy->stopped_count, 1);
    toy->is_busy = false;
    CT_CHECK_STATUS(poll(toy, 0), DDP_E_SYSTEM);
    coll_world_close(&world);
}

CT_TEST(queue, a_work_that_cannot_be_prepared_is_refused_alone)
{
    struct coll_world world;
    struct toy *toy;

    open_world(&world);
    toy = toy_of(&world, 0);
    toy->prepared = DDP_E_NOMEM;
    CT_CHECK_STATUS(post(toy, 0), DDP_E_NOMEM);
    toy->prepared = DDP_OK;
    CT_CHECK_OK(post(toy, 0));
    toy->prepared = DDP_E_DEVICE; /* unless the device has failed */
    CT_CHECK_STATUS(post(toy, 1), DDP_E_DEVICE);
    CT_CHECK_STATUS(poll(toy, 0), DDP_E_DEVICE);
    CT_CHECK_EQ_U64(toy->released_count, 1);
    coll_world_close(&world);
}

/* Nobody is found dead: after a second the error is what the engine says it is. */
CT_TEST(queue, an_error_that_may_be_a_death_is_held_for_a_second)
{
    struct coll_world world;
    struct ddp_revocation revocation;
    struct toy *toy;

    open_world(&world);
    toy = toy_of(&world, 0);
    CT_CHECK_OK(post(toy, 0));
    toy->head = DDP_E_SYSTEM;
    toy->unexplained = DDP_E_DEVICE;
    CT_CHECK_STATUS(poll(toy, 0), DDP_PENDING);
    pass_ns(&world, DDP_QUEUE_SUSPICION_NS - 1);
    CT_CHECK_STATUS(poll(toy, 0), DDP_PENDING);
    CT_CHECK(!toy->queue.base.ops->is_revoked(&toy->queue.base, &revocation));
    pass_ns(&world, 1);
    CT_CHECK_STATUS(poll(toy, 0), DDP_E_DEVICE);
    CT_CHECK(toy->queue.base.ops->is_revoked(&toy->queue.base, &revocation));
    coll_world_close(&world);
}

/* Whether the group is revoked meanwhile or not: the death is the reason, and is not announced. */
CT_TEST(queue, a_death_explains_an_error_that_is_held)
{
    for (int is_revoked = 0; is_revoked < 2; is_revoked++) {
        const struct ddp_revocation revocation = {1, DDP_E_STATE, 0, 0};
        struct ddp_revocation seen;
        struct coll_world world;
        struct toy *toy;

        open_world(&world);
        toy = toy_of(&world, 0);
        CT_CHECK_OK(post(toy, 0));
        toy->head = DDP_E_SYSTEM;
        toy->unexplained = DDP_E_DEVICE;
        CT_CHECK_STATUS(poll(toy, 0), DDP_PENDING);
        if (is_revoked) {
            toy->queue.base.ops->revoke(&toy->queue.base, &revocation);
        }
        coll_world_kill(&world, 1);
        pass_ns(&world, DDP_NS_PER_MS);
        CT_CHECK_STATUS(poll(toy, 0), DDP_E_PEER_DIED);
        CT_CHECK_EQ_I64(toy->queue.base.ops->dead_rank(&toy->queue.base), 1);
        CT_CHECK(toy->queue.base.ops->is_revoked(&toy->queue.base, &seen) == (is_revoked != 0));
        coll_world_close(&world);
    }
}

/* Living members may still pass on what the dead one had sent. */
CT_TEST(queue, a_wait_goes_on_for_a_moment_after_a_death)
{
    struct coll_world world;
    struct toy *toy;

    open_world(&world);
    toy = toy_of(&world, 0);
    CT_CHECK_OK(post(toy, 0));
    CT_CHECK_OK(post(toy, 1));
    coll_world_kill(&world, 1);
    pass_ns(&world, DDP_NS_PER_MS); /* the death becomes known */
    CT_CHECK_STATUS(poll(toy, 0), DDP_PENDING);
    pass_ns(&world, DDP_TRANSPORT_DEATH_GRACE_NS - 1);
    toy->head = DDP_OK;
    CT_CHECK_OK(poll(toy, 0));
    toy->head = DDP_PENDING;
    CT_CHECK_OK(post(toy, 2));
    pass_ns(&world, 1);
    CT_CHECK_STATUS(poll(toy, 2), DDP_E_PEER_DIED);
    coll_world_close(&world);
}

CT_TEST(queue, destroying_ends_queued_works)
{
    struct coll_world world;
    struct ddp_coll_work work;
    struct toy *toy;

    open_world(&world);
    memset(&work, 0, sizeof(work));
    work.args.kind = DDP_COLL_BARRIER;
    work.seq = 1;
    toy = toy_of(&world, 0);
    CT_CHECK_OK(toy->queue.base.ops->post(&toy->queue.base, &work));
    coll_world_close(&world);
    CT_CHECK_STATUS(work.status, DDP_E_STATE);
}
