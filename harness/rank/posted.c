/* Collectives that the plan has a rank post beside those of the DDP core (job.posts). */
#include "harness/plan/posted.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/base/text.h"
#include "harness/rank/session.h"

/* One of job.posts, as this rank is about to post it. */
struct turn {
    struct harness_posted posted;
    uint32_t index;
    struct ddp_group *group; /* NULL: the rank is not in its group */
    uint32_t size, member;   /* of that group */
};

static ddp_status post(struct harness_session *session, const struct turn *turn, void *input,
                       void *output)
{
    const struct ddp_coll_args args = {.kind = turn->posted.kind,
                                       .redop = turn->posted.redop,
                                       .dtype = turn->posted.dtype,
                                       .role = DDP_ROLE_USER,
                                       .index = turn->index,
                                       .root = turn->posted.root,
                                       .input = input,
                                       .output = output,
                                       .elem_count = turn->posted.elem_count};
    ddp_status status;

    DDP_ASSERT(turn->group != NULL);
    status = ddp_group_run(turn->group, &args);
    if (status != DDP_OK && turn->group->failure.status != DDP_OK) {
        ddp_group_follow(&session->group, turn->group);
    }
    return status;
}

/* What the rank has now is what a trainer would go on with, whatever came out. */
static void record_taken(const struct harness_session *session, const struct turn *turn,
                         const void *output)
{
    const struct harness_posted *posted = &turn->posted;
    const uint64_t seq = turn->group != NULL ? turn->group->run_work.seq : 0;
    const size_t size_bytes =
        posted->elem_count * ddp_dtype_size_bytes(posted->dtype) *
        ddp_coll_output_blocks(posted->kind, turn->size, turn->member == posted->root);
    char salt[32];

    if (!session->options->is_hashing || seq == 0 || size_bytes == 0 ||
        posted->kind == DDP_COLL_BARRIER) {
        return;
    }
    (void)snprintf(salt, sizeof salt, "%s/%u", ddp_coll_role_name(DDP_ROLE_USER), turn->index);
    ddp_recorder_event(
        session->env->recorder, DDP_EVENT_COLL_TAKEN, seq,
        ddp_recorder_hash(session->env->recorder, output, size_bytes, ddp_hash_text(salt)), 0, 0,
        0);
}

/* Says who has not come, all of them. */
static ddp_status run_monitored(struct harness_session *session)
{
    const uint32_t ranks = session->plan->job.ranks;
    bool *is_missing = ddp_mem_array(session->env->mem, ranks, sizeof is_missing[0]);
    struct ddp_text text;
    ddp_status status;
    bool is_any = false;

    if (is_missing == NULL) {
        return DDP_E_NOMEM;
    }
    status =
        ddp_group_monitored_barrier(&session->group, session->plan->job.timeout_ns, is_missing);
    if (status < DDP_OK) {
        ddp_text_init(&text, session->env->mem);
        for (uint32_t r = 0; r < ranks; r++) {
            if (is_missing[r]) {
                ddp_text_add(&text, "%s%u", is_any ? ", " : "", r);
                is_any = true;
            }
        }
        (void)ddp_err_set(session->err, status, "monitored barrier: %s; not there: ranks %s",
                          ddp_status_text(status), ddp_text_str(&text));
        ddp_text_fini(&text);
    }
    ddp_mem_free(session->env->mem, is_missing);
    return status;
}

/* The memory of one collective: one block, or one for what goes in and one for what comes out. */
struct buffers {
    char *input, *output;
};

/* Zeroed. A collective that is larger than all before makes more room. */
static char *take_block(struct harness_session *session, size_t which, size_t count,
                        size_t block_bytes)
{
    struct harness_post_room *room = &session->post_room;
    struct ddp_mem *mem = session->env->mem;
    size_t size_bytes;

    if (__builtin_mul_overflow(count, block_bytes, &size_bytes)) {
        return NULL;
    }
    if (room->block[which] == NULL || room->size_bytes[which] < size_bytes) {
        ddp_mem_free(mem, room->block[which]);
        room->block[which] = ddp_mem_array(mem, size_bytes, 1);
        room->size_bytes[which] = room->block[which] == NULL ? 0 : size_bytes;
    } else {
        memset(room->block[which], 0, size_bytes);
    }
    return room->block[which];
}

void harness_session_end_posts(struct harness_session *session)
{
    ddp_mem_free(session->env->mem, session->post_room.block[0]);
    ddp_mem_free(session->env->mem, session->post_room.block[1]);
    session->post_room = (struct harness_post_room){{NULL, NULL}, {0, 0}};
}

/* As much as the root's, which a fault may make any rank. In place the shorter one of the two is
 * this rank's block of the longer one; a reduction to one rank is in place there alone. */
static bool take_buffers(struct harness_session *session, const struct turn *turn,
                         struct buffers *out)
{
    const struct harness_posted *posted = &turn->posted;
    const size_t block_bytes = posted->elem_count * ddp_dtype_size_bytes(posted->dtype);
    const size_t before_bytes = turn->member * block_bytes;
    const size_t input_blocks = ddp_coll_input_blocks(posted->kind, turn->size);
    const size_t output_blocks = ddp_coll_output_blocks(posted->kind, turn->size, true);
    const bool is_one =
        posted->is_in_place && (posted->kind != DDP_COLL_REDUCE || turn->member == posted->root);

    out->input = take_block(session, 0,
                            is_one && output_blocks > input_blocks ? output_blocks : input_blocks,
                            block_bytes);
    out->output = is_one ? out->input : take_block(session, 1, output_blocks, block_bytes);
    if (out->input == NULL || out->output == NULL) {
        return false;
    }
    if (is_one && posted->kind == DDP_COLL_ALL_GATHER) {
        out->input += before_bytes;
    } else if (is_one && posted->kind == DDP_COLL_REDUCE_SCATTER) {
        out->output += before_bytes;
    }
    return true;
}

static ddp_status run_one(struct harness_session *session, uint32_t step, const struct turn *turn)
{
    const struct harness_posted *posted = &turn->posted;
    struct buffers buffers = {NULL, NULL};
    ddp_status status;

    if (posted->is_monitored) {
        return run_monitored(session);
    }
    if (posted->kind == DDP_COLL_BARRIER) {
        return post(session, turn, NULL, NULL);
    }
    status = take_buffers(session, turn, &buffers) ? DDP_OK : DDP_E_NOMEM;
    if (status == DDP_OK && (posted->kind != DDP_COLL_BROADCAST || turn->member == posted->root)) {
        harness_posted_fill(posted, session->plan->job.seed, step, turn->index, session->env->rank,
                            posted->elem_count * ddp_coll_input_blocks(posted->kind, turn->size),
                            buffers.input);
    }
    if (status == DDP_OK) {
        status = post(session, turn, buffers.input, buffers.output);
    }
    if (status == DDP_OK) {
        record_taken(session, turn, buffers.output);
    }
    return status;
}

/* Points posts/order and posts/group: numbers that a fault may alter. */
static ddp_status pass_numbers(struct harness_session *session, enum ddp_fault_point point,
                               int64_t *numbers, size_t count)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;

    place.data = numbers;
    place.elem_count = count;
    place.dtype = DDP_DTYPE_I64;
    place.seq = session->numbers + 1;
    return ddp_fault_point(session->env->faults, point, &place) == DDP_FAULT_FAIL
               ? ddp_err_set(session->err, DDP_E_INJECTED, "%s", ddp_fault_point_name(point))
               : DDP_OK;
}

/* group: of the plan, as a fault may have altered it. */
static ddp_status enter_group(struct harness_session *session, int64_t group, struct turn *turn)
{
    const int64_t count = (int64_t)session->plan->job.groups.count;

    turn->group = group == 0                   ? &session->group
                  : group < 0 || group > count ? NULL
                                               : &session->groups[group - 1];
    if (turn->group == NULL || turn->group->coll == NULL) {
        return ddp_err_set(session->err, DDP_E_INVALID,
                           "a fault has this rank post in group %lld of job.groups, in which it is "
                           "not",
                           (long long)group);
    }
    turn->size = turn->group->coll->member_count;
    turn->member = turn->group->coll->member;
    turn->group->step = session->group.step;
    return DDP_OK;
}

/* What is posted in a group that the rank is not in it counts, and goes on. */
static ddp_status take_turn(struct harness_session *session, uint32_t step, uint32_t index)
{
    const struct harness_job *job = &session->plan->job;
    struct turn turn = {.index = index};
    struct harness_group group;
    uint32_t number;
    int64_t chosen;

    DDP_TRY(harness_posted_parse(job->posts.items[index], &turn.posted, session->err));
    DDP_TRY(harness_posted_group(&turn.posted, job, &number, &group, session->err));
    if (number > 0 && session->groups[number - 1].coll == NULL) {
        session->numbers++;
        return DDP_OK;
    }
    chosen = number;
    if (!turn.posted.is_monitored) {
        DDP_TRY(pass_numbers(session, DDP_FAULT_POINT_POSTS_GROUP, &chosen, 1));
    }
    DDP_TRY(enter_group(session, chosen, &turn));
    return run_one(session, step, &turn);
}

ddp_status harness_session_post(struct harness_session *session, uint32_t step)
{
    const size_t count = session->plan->job.posts.count;
    int64_t order[HARNESS_POSTED_MAX];

    if (count == 0) {
        return DDP_OK;
    }
    DDP_ASSERT(count <= HARNESS_POSTED_MAX);
    harness_session_phase(session, DDP_PHASE_REDUCE);
    for (size_t i = 0; i < count; i++) {
        order[i] = (int64_t)i;
    }
    DDP_TRY(pass_numbers(session, DDP_FAULT_POINT_POSTS_ORDER, order, count));
    for (size_t i = 0; i < count; i++) {
        if (order[i] >= 0 && (size_t)order[i] < count) {
            DDP_TRY(take_turn(session, step, (uint32_t)order[i]));
        }
    }
    return DDP_OK;
}
