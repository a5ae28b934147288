/* Operations as text. A page may hold anything, so every index is checked. */
#include "harness/plan/op_text.h"

static void add_params(const struct harness_program *program, const struct harness_bucket *bucket,
                       struct ddp_text *out)
{
    for (uint32_t i = 0; i < bucket->param_count && i < HARNESS_NAMED_MAX; i++) {
        uint32_t param = bucket->params[i];

        ddp_text_add(out, "%s%s", i == 0 ? ": " : ", ",
                     param < program->param_count ? program->params[param].name : "?");
    }
    if (bucket->param_count > HARNESS_NAMED_MAX) {
        ddp_text_add(out, " and %u more", bucket->param_count - HARNESS_NAMED_MAX);
    }
}

/* Of an operation of job.posts in a job with groups: " 1 in group pair". */
static void add_user(const struct harness_program *program, uint32_t index, struct ddp_text *out)
{
    for (size_t i = 0; program->group_count > 0 && i < program->op_count; i++) {
        const struct harness_op *op = &program->ops[i];
        const struct harness_group *group = harness_program_group(program, op);

        if (op->role == DDP_ROLE_USER && op->index == index) {
            ddp_text_add(out, " %u%s%s", index, group != NULL ? " in group " : "",
                         group != NULL ? group->name : "");
            return;
        }
    }
}

void harness_op_text_add(const struct harness_program *program, struct ddp_event_op op,
                         uint64_t seq, struct ddp_text *out)
{
    const struct harness_bucket *bucket =
        harness_program_bucket(program, harness_program_step_at(program, seq), op.index);

    ddp_text_add(out, "%s seq %llu (%s", ddp_coll_kind_name(op.kind), (unsigned long long)seq,
                 ddp_coll_role_name(op.role));
    if (op.role == DDP_ROLE_BUCKET) {
        ddp_text_add(out, " %u", op.index);
        if (bucket != NULL) {
            add_params(program, bucket, out);
        }
    }
    if (op.role == DDP_ROLE_USER) {
        add_user(program, op.index, out);
    }
    ddp_text_add(out, ")");
}

void harness_op_text_add_planned(const struct harness_program *program, uint64_t seq,
                                 struct ddp_text *out)
{
    const struct harness_op *op = harness_program_at(program, seq);

    if (op == NULL) {
        ddp_text_add(out, "seq %llu (not planned)", (unsigned long long)seq);
        return;
    }
    harness_op_text_add(
        program, (struct ddp_event_op){.kind = op->kind, .role = op->role, .index = op->index}, seq,
        out);
}
