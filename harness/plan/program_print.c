/* program.txt: the bucket table, then one line an operation, with the group
 * and its ranks if it is not of all. For people and diffs; never parsed. */
#include "harness/plan/program.h"

static void print_bucket(const struct harness_program *program, const char *what, size_t b,
                         const struct harness_bucket *bucket, struct ddp_text *out)
{
    ddp_text_add(out, "%s %zu elems %zu", what, b, bucket->elem_count);
    for (uint32_t i = 0; i < bucket->param_count; i++) {
        ddp_text_add(out, " %s@%zu", program->params[bucket->params[i]].name, bucket->offsets[i]);
    }
    ddp_text_add(out, "\n");
}

static void print_op(const struct harness_program *program, const struct harness_op *op,
                     struct ddp_text *out)
{
    const struct harness_group *group = harness_program_group(program, op);

    ddp_text_add(out, "%llu step %d %s %s %s %u", (unsigned long long)op->seq, op->step,
                 ddp_phase_name(op->phase), ddp_coll_kind_name(op->kind),
                 ddp_coll_role_name(op->role), op->index);
    if (op->kind != DDP_COLL_BARRIER) {
        ddp_text_add(out, " %s", ddp_dtype_name(op->dtype));
        ddp_text_add(out, "[%llu]", (unsigned long long)op->elem_count);
    }
    if (ddp_coll_kind_is_sum(op->kind)) {
        ddp_text_add(out, " %s", ddp_redop_name(op->redop));
    }
    if (ddp_coll_kind_has_root(op->kind) && op->is_root_known) {
        ddp_text_add(out, " root %u", op->root);
    } else if (ddp_coll_kind_has_root(op->kind)) {
        ddp_text_add(out, " root ?");
    }
    if (group != NULL) {
        ddp_text_add(out, " in %s: ranks", group->name);
    }
    for (uint32_t i = 0; group != NULL && i < group->rank_count; i++) {
        ddp_text_add(out, " %u", group->ranks[i]);
    }
    ddp_text_add(out, "\n");
}

void harness_program_print(const struct harness_program *program, struct ddp_text *out)
{
    ddp_text_add(out, "# %zu operations, %zu buckets, hash %016llx\n", program->op_count,
                 program->first.count, (unsigned long long)program->hash);
    for (size_t b = 0; b < program->first.count; b++) {
        print_bucket(program, "bucket", b, &program->first.items[b], out);
    }
    for (size_t b = 0; b < program->rebuilt.count; b++) {
        print_bucket(program, "rebuilt bucket", b, &program->rebuilt.items[b], out);
    }
    for (size_t i = 0; i < program->op_count; i++) {
        print_op(program, &program->ops[i], out);
    }
}
