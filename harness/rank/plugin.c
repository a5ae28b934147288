/* Purpose: schedules of somebody else's algorithm for a rank's collectives.
 * Idea: a process is started for each question and ended with its answer, so nothing is held across
 * a fault point, in the simulator neither. What the schedule language asks of steps is checked
 * here, since they are somebody else's; whether they are right is for the judge to say. */
#include "harness/plugin/plugin.h"

#include <stdio.h>

#include "ddpcore/schedule/schedule.h"
#include "harness/rank/plugin.h"

_Static_assert((int)DDPROVE_COLL_SEND == (int)DDP_STEP_SEND &&
                   (int)DDPROVE_COLL_RECV == (int)DDP_STEP_RECV &&
                   (int)DDPROVE_COLL_RECV_REDUCE == (int)DDP_STEP_RECV_REDUCE &&
                   (int)DDPROVE_COLL_REDUCE == (int)DDP_STEP_REDUCE &&
                   (int)DDPROVE_COLL_COPY == (int)DDP_STEP_COPY &&
                   (int)DDPROVE_COLL_CONVERT == (int)DDP_STEP_CONVERT &&
                   DDPROVE_COLL_DEPS == DDP_STEP_DEPS_MAX &&
                   HARNESS_PLUGIN_SCRATCH_MAX == DDP_SCHEDULE_SCRATCH_MAX,
               "steps are the same");
_Static_assert((int)DDPROVE_COLL_F32 == (int)DDP_DTYPE_F32 + 1 &&
                   (int)DDPROVE_COLL_U8 == (int)DDP_DTYPE_COUNT,
               "types have the same order");

/* False: it lies outside of its buffer. */
static bool take_range(const struct ddp_schedule *schedule, const struct ddprove_coll_range *from,
                       struct ddp_range *out)
{
    uint64_t room = schedule->params.elem_count;

    *out = (struct ddp_range){.first = (size_t)from->first, .elem_count = (size_t)from->count};
    if (from->buffer >= DDPROVE_COLL_SCRATCH) {
        out->buffer = DDP_BUFFER_SCRATCH;
        out->scratch = from->buffer - DDPROVE_COLL_SCRATCH;
        if (out->scratch >= schedule->scratch_count) {
            return false;
        }
        room = schedule->scratch[out->scratch].elem_count;
    } else {
        out->buffer = from->buffer == DDPROVE_COLL_INPUT ? DDP_BUFFER_INPUT : DDP_BUFFER_OUTPUT;
    }
    return from->first <= room && from->count <= room - from->first;
}

/* What is wrong with a message; NULL: nothing. */
static const char *judge_message(const struct ddp_schedule *schedule, uint32_t peer,
                                 const struct ddprove_coll_range *range)
{
    size_t segment = schedule->params.segment_elem_count;

    if (peer >= schedule->params.size || peer == schedule->params.rank) {
        return "its peer is no other rank";
    }
    return segment > 0 && range->count > segment ? "its message is longer than was asked for"
                                                 : NULL;
}

/* What is wrong with a step; NULL: nothing, and *out is it. */
static const char *take_step(const struct ddp_schedule *schedule, size_t index,
                             const struct ddprove_coll_step *from, struct ddp_step *out)
{
    bool is_sent = from->kind == DDPROVE_COLL_SEND;
    bool is_taken = from->kind == DDPROVE_COLL_RECV || from->kind == DDPROVE_COLL_RECV_REDUCE;

    if (from->kind >= (uint32_t)DDP_STEP_KIND_COUNT) {
        return "its kind is not known";
    }
    *out = (struct ddp_step){
        .kind = (enum ddp_step_kind)from->kind, .round = from->round, .peer = from->peer};
    if ((!is_taken && !take_range(schedule, &from->src, &out->src)) ||
        (!is_sent && !take_range(schedule, &from->dst, &out->dst))) {
        return "it reaches beyond its buffer";
    }
    if (!is_sent && !is_taken && from->src.count != from->dst.count) {
        return "its ranges differ in length";
    }
    if (is_sent || is_taken) {
        const char *wrong = judge_message(schedule, from->peer, is_sent ? &from->src : &from->dst);

        if (wrong != NULL) {
            return wrong;
        }
    }
    for (int d = 0; d < DDPROVE_COLL_DEPS; d++) {
        if (from->dep[d] != DDPROVE_COLL_NONE && from->dep[d] >= index) {
            return "it waits for a later step";
        }
        if (from->dep[d] != DDPROVE_COLL_NONE) {
            out->dep[out->dep_count++] = from->dep[d];
        }
    }
    return NULL;
}

static ddp_status take_answer(struct ddp_schedule *schedule,
                              const struct harness_plugin_answer *answer, struct ddp_err *err)
{
    for (uint32_t i = 0; i < answer->scratch_count; i++) {
        uint32_t dtype = answer->scratch[i].dtype;

        if (dtype < DDPROVE_COLL_F32 || dtype > DDPROVE_COLL_U8 ||
            answer->scratch[i].count > SIZE_MAX / 16) {
            return ddp_err_set(err, DDP_E_INVALID, "scratch %u: neither type nor count is possible",
                               i);
        }
        (void)ddp_schedule_add_scratch(schedule, (enum ddp_dtype)(dtype - 1),
                                       (size_t)answer->scratch[i].count);
    }
    for (size_t i = 0; schedule->status == DDP_OK && i < answer->step_count; i++) {
        struct ddp_step step;
        const char *wrong = take_step(schedule, i, &answer->steps[i], &step);

        if (wrong != NULL) {
            return ddp_err_set(err, DDP_E_INVALID, "step %zu of rank %u of %u: %s", i,
                               schedule->params.rank, schedule->params.size, wrong);
        }
        (void)ddp_schedule_add(schedule, &step);
    }
    return schedule->status;
}

static ddp_status ask(struct harness_plugin *plugin, struct ddp_schedule *schedule,
                      struct ddp_err *err)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddprove_coll_question question = {.rank = params->rank,
                                                   .size = params->size,
                                                   .root = params->root,
                                                   .count = params->elem_count,
                                                   .segment = params->segment_elem_count,
                                                   .is_in_place = params->is_in_place != 0,
                                                   .dtype = (uint32_t)params->dtype + 1,
                                                   .node_of_rank = params->node_of_rank};
    struct harness_plugin_answer answer;

    if (harness_plugin_kind(plugin) != DDPROVE_COLL_ALL_REDUCE) {
        return ddp_err_set(err, DDP_E_INVALID, "%s is no all-reduce", harness_plugin_name(plugin));
    }
    (void)snprintf(schedule->algorithm, sizeof schedule->algorithm, "%s",
                   harness_plugin_name(plugin));
    DDP_TRY(harness_plugin_ask_one(plugin, &question, &answer, err));
    return take_answer(schedule, &answer, err);
}

static ddp_status emit(struct ddp_schedule_emitter *base, struct ddp_schedule *schedule,
                       struct ddp_err *err)
{
    struct harness_plugin_emitter *emitter = (struct harness_plugin_emitter *)base;
    struct harness_plugin *plugin = NULL;
    struct ddp_err why = {""};
    ddp_status status = harness_plugin_open("/proc/self/exe", emitter->path, &plugin, &why);

    if (status == DDP_OK) {
        status = ask(plugin, schedule, &why);
    }
    harness_plugin_close(plugin);
    if (status != DDP_OK) {
        emitter->status = status;
        (void)ddp_err_set(emitter->err, status, "%s: %s", emitter->path, why.text);
        (void)ddp_err_set(err, status, "%s: %s", emitter->path, why.text);
    }
    return status;
}

void harness_plugin_emitter_init(struct harness_plugin_emitter *emitter, const char *path,
                                 struct ddp_err *err)
{
    *emitter = (struct harness_plugin_emitter){{emit}, path, err, DDP_OK};
}
