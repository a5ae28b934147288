/* Sorting a schedule into rounds, and refusing those that do not fit.
 *
 * The messages of a round run together in one NCCL group, so none of them may wait for another one
 * of the same round: a plain receive writes while the round's sends still read. A recv_reduce lands
 * in a place of its own and is added by a kernel after the group, so it may depend on anything in
 * its round. Both ends of a message must put it into the same round: then no group waits for a
 * message of a group that cannot start yet. */
#include "ddpcore/nccl/plan.h"

#include <string.h>

#include "ddpcore/base/text.h"

#define ALIGN_BYTES ((size_t)64)

enum place { PLACE_BEFORE, PLACE_WIRE, PLACE_AFTER };

static bool is_message(const struct ddp_step *step)
{
    return step->kind == DDP_STEP_SEND || step->kind == DDP_STEP_RECV ||
           step->kind == DDP_STEP_RECV_REDUCE;
}

static size_t aligned(size_t size_bytes)
{
    return (size_bytes + ALIGN_BYTES - 1) & ~(ALIGN_BYTES - 1);
}

enum ddp_dtype ddp_nccl_range_dtype(const struct ddp_schedule *schedule,
                                    const struct ddp_range *range)
{
    return range->buffer == DDP_BUFFER_SCRATCH ? schedule->scratch[range->scratch].dtype
                                               : schedule->params.dtype;
}

static ddp_status refuse(const struct ddp_schedule *schedule, struct ddp_err *err, size_t step,
                         const char *why)
{
    return ddp_err_set(err, DDP_E_UNSUPPORTED,
                       "algorithm %s does not fit NCCL's groups: step %zu (round %u) of rank %u "
                       "of %u %s",
                       schedule->algorithm, step, schedule->steps[step].round,
                       schedule->params.rank, schedule->params.size, why);
}

/* place: enum place per step, filled here. */
static ddp_status place_steps(const struct ddp_schedule *schedule, uint8_t *place,
                              struct ddp_err *err)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        const struct ddp_step *step = &schedule->steps[i];

        place[i] = is_message(step) ? PLACE_WIRE : PLACE_BEFORE;
        for (uint32_t j = 0; j < step->dep_count; j++) {
            uint32_t dep = step->dep[j];

            DDP_ASSERT(dep < i); /* so its place is known */
            if (schedule->steps[dep].round > step->round) {
                return refuse(schedule, err, i, "waits for a step of a later round");
            }
            if (schedule->steps[dep].round < step->round || place[dep] == PLACE_BEFORE) {
                continue;
            }
            if (!is_message(step)) {
                place[i] = PLACE_AFTER;
            } else if (step->kind != DDP_STEP_RECV_REDUCE) {
                return refuse(schedule, err, i, "is a message that waits for one of its own round");
            }
        }
    }
    return DDP_OK;
}

/* The next message of one direction between two ranks, from *index on; NULL at the end. */
static const struct ddp_step *next_message(const struct ddp_schedule *schedule, uint32_t peer,
                                           bool is_send, size_t *index)
{
    while (*index < schedule->step_count) {
        const struct ddp_step *step = &schedule->steps[(*index)++];

        if (is_message(step) && step->peer == peer && (step->kind == DDP_STEP_SEND) == is_send) {
            return step;
        }
    }
    return NULL;
}

static size_t message_elem_count(const struct ddp_step *step)
{
    return step->kind == DDP_STEP_SEND ? step->src.elem_count : step->dst.elem_count;
}

/* Whether the n-th send of `sender` to `receiver` and the n-th receive have the same round and
 * length, for each n, and rounds never decrease. */
static bool is_matched(const struct ddp_schedule *sender, const struct ddp_schedule *receiver)
{
    size_t send_index = 0;
    size_t recv_index = 0;
    uint32_t round = 0;

    for (;;) {
        const struct ddp_step *send =
            next_message(sender, receiver->params.rank, true, &send_index);
        const struct ddp_step *recv =
            next_message(receiver, sender->params.rank, false, &recv_index);

        if (send == NULL || recv == NULL) {
            return send == recv;
        }
        if (send->round != recv->round || send->round < round ||
            message_elem_count(send) != message_elem_count(recv)) {
            return false;
        }
        round = send->round;
    }
}

static ddp_status check_peer(const struct ddp_schedule *own, const struct ddp_algorithm *algorithm,
                             size_t step, struct ddp_err *err)
{
    struct ddp_schedule_params params = own->params;
    struct ddp_schedule other;
    ddp_status status;

    DDP_ASSERT(own->steps[step].peer < params.size && own->steps[step].peer != params.rank);
    params.rank = own->steps[step].peer;
    ddp_schedule_init(&other, own->mem, algorithm->name, &params);
    algorithm->emit(&other);
    status = other.status;
    if (status == DDP_OK && (!is_matched(own, &other) || !is_matched(&other, own))) {
        status = refuse(own, err, step, "meets a peer that has this message in another round");
    }
    ddp_schedule_fini(&other);
    return status;
}

/* Checks each peer once, at the first message to or from it. */
static ddp_status check_peers(const struct ddp_schedule *schedule,
                              const struct ddp_algorithm *algorithm, uint8_t *is_seen,
                              struct ddp_err *err)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        const struct ddp_step *step = &schedule->steps[i];

        if (is_message(step) && !is_seen[step->peer]) {
            is_seen[step->peer] = 1;
            DDP_TRY(check_peer(schedule, algorithm, i, err));
        }
    }
    return DDP_OK;
}

static void sort_steps(struct ddp_nccl_plan *plan, const uint8_t *place)
{
    const struct ddp_schedule *schedule = &plan->schedule;
    uint32_t filled = 0;

    for (uint32_t round = 0; round < plan->round_count; round++) {
        uint32_t *starts[] = {&plan->rounds[round].before, &plan->rounds[round].wire,
                              &plan->rounds[round].after};

        for (int at = PLACE_BEFORE; at <= PLACE_AFTER; at++) {
            *starts[at] = filled;
            for (uint32_t i = 0; i < schedule->step_count; i++) {
                const struct ddp_step *step = &schedule->steps[i];

                if (step->round == round &&
                    (place[i] == at || (at == PLACE_AFTER && step->kind == DDP_STEP_RECV_REDUCE))) {
                    plan->order[filled++] = i;
                }
            }
        }
        plan->rounds[round].end = filled;
        DDP_ASSERT(plan->rounds[round].before <= plan->rounds[round].wire &&
                   plan->rounds[round].wire <= plan->rounds[round].after);
    }
    DDP_ASSERT(filled >= schedule->step_count && filled <= 2 * schedule->step_count);
}

static void lay_out_workspace(struct ddp_nccl_plan *plan)
{
    const struct ddp_schedule *schedule = &plan->schedule;
    size_t *landing = plan->offset_bytes + schedule->scratch_count;
    size_t scratch_bytes = 0;

    for (size_t i = 0; i < schedule->scratch_count; i++) {
        plan->offset_bytes[i] = scratch_bytes;
        scratch_bytes += aligned(schedule->scratch[i].elem_count *
                                 ddp_dtype_size_bytes(schedule->scratch[i].dtype));
    }
    plan->workspace_bytes = scratch_bytes;
    /* Rounds can share landing places: a round's messages start after the kernels of the one
     * before.
     */
    for (uint32_t round = 0; round < plan->round_count; round++) {
        size_t used_bytes = scratch_bytes;

        for (uint32_t i = plan->rounds[round].wire; i < plan->rounds[round].after; i++) {
            const struct ddp_step *step = &schedule->steps[plan->order[i]];

            if (step->kind == DDP_STEP_RECV_REDUCE) {
                landing[plan->order[i]] = used_bytes;
                used_bytes +=
                    aligned(step->dst.elem_count *
                            ddp_dtype_size_bytes(ddp_nccl_range_dtype(schedule, &step->dst)));
            }
        }
        if (used_bytes > plan->workspace_bytes) {
            plan->workspace_bytes = used_bytes;
        }
    }
}

static ddp_status sort_and_lay_out(struct ddp_mem *mem, struct ddp_nccl_plan *plan,
                                   const struct ddp_algorithm *algorithm, struct ddp_err *err)
{
    const struct ddp_schedule *schedule = &plan->schedule;
    uint8_t *place = ddp_mem_array(mem, schedule->step_count, 1);
    uint8_t *is_seen = ddp_mem_array(mem, schedule->params.size, 1);
    ddp_status status = DDP_E_NOMEM;

    for (size_t i = 0; i < schedule->step_count; i++) {
        if (schedule->steps[i].round >= plan->round_count) {
            plan->round_count = schedule->steps[i].round + 1;
        }
    }
    plan->rounds = ddp_mem_array(mem, plan->round_count, sizeof(*plan->rounds));
    plan->order = ddp_mem_array(mem, 2 * schedule->step_count, sizeof(*plan->order));
    plan->offset_bytes = ddp_mem_array(mem, schedule->scratch_count + schedule->step_count,
                                       sizeof(*plan->offset_bytes));
    if (place != NULL && is_seen != NULL && plan->rounds != NULL && plan->order != NULL &&
        plan->offset_bytes != NULL) {
        status = place_steps(schedule, place, err);
    }
    if (status == DDP_OK) {
        status = check_peers(schedule, algorithm, is_seen, err);
    }
    if (status == DDP_OK) {
        sort_steps(plan, place);
        lay_out_workspace(plan);
    }
    ddp_mem_free(mem, place);
    ddp_mem_free(mem, is_seen);
    return status;
}

ddp_status ddp_nccl_plan_create(struct ddp_mem *mem, const struct ddp_algorithm *algorithm,
                                const struct ddp_schedule_params *params,
                                struct ddp_nccl_plan **out, struct ddp_err *err)
{
    struct ddp_nccl_plan *plan = ddp_mem_array(mem, 1, sizeof(*plan));
    ddp_status status;

    if (plan == NULL) {
        (void)ddp_err_set(err, DDP_E_NOMEM, "no memory for a plan");
        return DDP_E_NOMEM;
    }
    ddp_schedule_init(&plan->schedule, mem, algorithm->name, params);
    algorithm->emit(&plan->schedule);
    status = plan->schedule.status;
    if (status == DDP_OK) {
        status = sort_and_lay_out(mem, plan, algorithm, err);
    }
    if (status != DDP_OK) {
        ddp_nccl_plan_destroy(mem, plan);
        return status;
    }
    *out = plan;
    return DDP_OK;
}

void ddp_nccl_plan_destroy(struct ddp_mem *mem, struct ddp_nccl_plan *plan)
{
    ddp_schedule_fini(&plan->schedule);
    ddp_mem_free(mem, plan->rounds);
    ddp_mem_free(mem, plan->order);
    ddp_mem_free(mem, plan->offset_bytes);
    ddp_mem_free(mem, plan);
}

static ddp_status create_cached(struct ddp_cache *cache, const struct ddp_schedule_params *params,
                                struct ddp_cached **out, struct ddp_err *err)
{
    struct ddp_nccl_plan *plan = NULL;

    DDP_TRY(ddp_nccl_plan_create(cache->mem, cache->algorithm[params->kind], params, &plan, err));
    if (cache->observer != NULL) {
        ddp_status status = cache->observer->used(cache->observer, &plan->schedule);

        if (status != DDP_OK) {
            ddp_nccl_plan_destroy(cache->mem, plan);
            return status;
        }
    }
    *out = &plan->cached;
    return DDP_OK;
}

static void destroy_cached(struct ddp_cache *cache, struct ddp_cached *cached)
{
    ddp_nccl_plan_destroy(cache->mem, (struct ddp_nccl_plan *)cached);
}

const struct ddp_cache_ops ddp_nccl_plan_cache_ops = {create_cached, destroy_cached};
