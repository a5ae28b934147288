/* Groups of some ranks in the program: what is posted in them, and who takes part. */
#include "harness/plan/posted.h"
#include "harness/plan/program_emit.h"

ddp_status harness_emit_groups(struct harness_program *program, const struct harness_job *job)
{
    if (job->groups.count == 0) {
        return DDP_OK;
    }
    program->groups = ddp_mem_array(program->mem, job->groups.count, sizeof(*program->groups));
    for (uint32_t i = 0; program->groups != NULL && i < job->groups.count; i++) {
        DDP_TRY(harness_group_parse(job->groups.items[i], &program->groups[i], NULL));
        program->group_count++;
    }
    return program->groups != NULL ? DDP_OK : DDP_E_NOMEM;
}

ddp_status harness_emit_posts(struct harness_emitter *emitter)
{
    for (uint32_t i = 0; i < emitter->job->posts.count; i++) {
        struct harness_posted posted;
        struct harness_group group;
        struct harness_op op;

        DDP_TRY(harness_posted_parse(emitter->job->posts.items[i], &posted, NULL));
        op = harness_emit_op(posted.kind, posted.dtype, posted.elem_count);
        op.redop = posted.redop;
        op.root = posted.root;
        op.index = posted.is_monitored ? 0 : i; /* the group numbers none of its barriers */
        DDP_TRY(harness_posted_group(&posted, emitter->job, &op.group, &group, NULL));
        DDP_TRY(harness_emit(emitter, DDP_PHASE_REDUCE,
                             posted.is_monitored ? DDP_ROLE_MONITORED : DDP_ROLE_USER, &op));
    }
    return DDP_OK;
}

const struct harness_op *harness_program_at(const struct harness_program *program, uint64_t seq)
{
    return seq == 0 || seq > program->op_count ? NULL : &program->ops[seq - 1];
}

const struct harness_group *harness_program_group(const struct harness_program *program,
                                                  const struct harness_op *op)
{
    DDP_ASSERT(op->group <= program->group_count);
    return op->group == 0 ? NULL : &program->groups[op->group - 1];
}

const struct harness_group *harness_program_group_of(const struct harness_program *program,
                                                     uint64_t comm)
{
    for (uint32_t i = 0; i < program->group_count; i++) {
        if (program->groups[i].comm == comm) {
            return &program->groups[i];
        }
    }
    return NULL;
}

bool harness_program_has_member(const struct harness_program *program, uint64_t seq, uint32_t rank)
{
    const struct harness_op *op = harness_program_at(program, seq);
    const struct harness_group *group = op != NULL ? harness_program_group(program, op) : NULL;

    return group == NULL || harness_group_member(group, rank) < group->rank_count;
}

uint64_t harness_program_next(const struct harness_program *program, uint64_t seq, uint32_t rank)
{
    do {
        seq++;
    } while (!harness_program_has_member(program, seq, rank));
    return seq;
}

bool harness_program_is_comm_wrong(const struct harness_program *program, uint64_t seq,
                                   uint64_t comm)
{
    const struct harness_op *op = harness_program_at(program, seq);

    return op != NULL &&
           harness_program_group_of(program, comm) != harness_program_group(program, op);
}
