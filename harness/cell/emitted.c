/* What the core's own algorithm emits for the operation of a dumped schedule. Idea: a schedule that
 * is wrong on all ranks alike is the algorithm's fault; one that is wrong on some of them, whose
 * dumps are not what the algorithm gives for that rank, is theirs. A wrong algorithm emits the same
 * here, and so blames nobody. */
#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/schedule/schedule.h"
#include "harness/cell/stage.h"

/* The text is what the two have in common, as with a rank's dump. */
static ddp_status read_emitted(const struct ddp_algorithm *algorithm,
                               const struct ddp_schedule_params *params, struct ddp_mem *mem,
                               struct harness_schedule *out)
{
    struct ddp_schedule schedule;
    struct ddp_text text;
    struct ddp_err err;
    ddp_status status;

    ddp_text_init(&text, mem);
    ddp_schedule_init(&schedule, mem, algorithm->name, params);
    algorithm->emit(&schedule);
    status = schedule.status;
    if (status == DDP_OK) {
        ddp_schedule_print(&schedule, &text);
        status = harness_schedule_parse(mem, ddp_text_str(&text), out, &err);
    }
    ddp_schedule_fini(&schedule);
    ddp_text_fini(&text);
    return status;
}

bool harness_stage_is_emitted(const struct harness_plan *plan, struct ddp_mem *mem,
                              const struct harness_schedule *dumped)
{
    const struct harness_job *job = &plan->job;
    enum ddp_algorithm_id id;
    const struct ddp_algorithm *algorithm;
    struct ddp_schedule_params params = {.kind = dumped->kind,
                                         .dtype = dumped->dtype,
                                         .rank = dumped->rank,
                                         .size = dumped->size,
                                         .elem_count = dumped->elem_count,
                                         .root = dumped->root,
                                         .is_in_place = dumped->is_in_place};
    uint32_t *nodes = ddp_mem_array(mem, dumped->size, sizeof(*nodes));
    struct harness_schedule emitted;
    bool is_same = true;

    if (nodes == NULL || dumped->size != job->ranks ||
        (job->collective.plugin != NULL && dumped->kind == DDP_COLL_ALL_REDUCE) ||
        ddp_algorithm_parse(dumped->algorithm, dumped->kind, &id) != DDP_OK) {
        ddp_mem_free(mem, nodes);
        return true;
    }
    algorithm = ddp_algorithm_find(dumped->kind, id);
    params.segment_elem_count =
        ddp_algorithm_segment_elem_count(algorithm, job->segment_bytes, dumped->dtype);
    for (uint32_t r = 0; job->nodes != NULL && r < dumped->size; r++) {
        nodes[r] = (uint32_t)job->nodes[r];
    }
    params.node_of_rank = job->nodes != NULL ? nodes : NULL;
    if (read_emitted(algorithm, &params, mem, &emitted) == DDP_OK) {
        is_same = harness_schedule_is_equal(dumped, &emitted);
        harness_schedule_fini(&emitted);
    }
    ddp_mem_free(mem, nodes);
    return is_same;
}
