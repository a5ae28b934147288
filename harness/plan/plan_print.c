/* A plan as YAML in the scenario format. Every key that decides anything is written, so that the
 * text keeps its meaning when defaults change; keys at "not stated" are left out. */
#include <string.h>

#include "harness/plan/flow.h"
#include "harness/plan/plan.h"

static const char *bool_text(bool value)
{
    return value ? "true" : "false";
}

static void print_sizes(const char *key, const size_t *values, size_t count, struct ddp_text *out)
{
    ddp_text_add(out, "  %s: [", key);
    for (size_t i = 0; i < count; i++) {
        ddp_text_add(out, "%s%zu", i == 0 ? "" : ", ", values[i]);
    }
    ddp_text_add(out, "]\n");
}

static void print_names(const char *const *names, size_t count, struct ddp_text *out)
{
    ddp_text_add(out, "[");
    for (size_t i = 0; i < count; i++) {
        ddp_text_add(out, i == 0 ? "" : ", ");
        harness_plan_print_text(names[i], out);
    }
    ddp_text_add(out, "]");
}

static void print_text_key(const char *key, const char *value, struct ddp_text *out)
{
    ddp_text_add(out, "%s: ", key);
    harness_plan_print_text(value, out);
    ddp_text_add(out, "\n");
}

static void print_kb(const char *key, size_t bytes, struct ddp_text *out)
{
    if (bytes == 0) {
        return;
    }
    ddp_text_add(out, "  %s: ", key);
    harness_flow_print_number((double)bytes / 1024.0, out); /* exact: a power of two */
    ddp_text_add(out, "\n");
}

static void print_optimizer(const struct harness_job *job, struct ddp_text *out)
{
    struct harness_flow flow = {out, false};

    ddp_text_add(out, "  optimizer: ");
    harness_flow_text(&flow, "kind", job->optimizer);
    harness_flow_number(&flow, "lr", job->lr);
    if (strcmp(job->optimizer, "sgd") == 0) {
        harness_flow_number(&flow, "momentum", job->momentum);
        harness_flow_number(&flow, "dampening", job->dampening);
        harness_flow_add(&flow, "nesterov: %s", bool_text(job->nesterov));
    } else {
        harness_flow_number(&flow, "beta1", job->beta1);
        harness_flow_number(&flow, "beta2", job->beta2);
        harness_flow_number(&flow, "eps", job->eps);
    }
    harness_flow_number(&flow, "weight_decay", job->weight_decay);
    harness_flow_close(&flow);
}

static void print_job_model(const struct harness_job *job, struct ddp_text *out)
{
    ddp_text_add(out, "job:\n  ranks: %u\n  steps: %u\n  micro_batches: %u\n", job->ranks,
                 job->steps, job->micro_batches);
    print_text_key("  model", job->model, out);
    print_text_key("  branch", job->branch, out);
    if (job->skip_rank != 0) {
        ddp_text_add(out, "  skip_rank: %u\n", job->skip_rank);
    }
    if (job->width_count > 0) {
        print_sizes("widths", job->width, job->width_count, out);
    }
    if (job->model_drift_rank != 0) {
        ddp_text_add(out, "  model_drift_rank: %u\n", job->model_drift_rank - 1);
    }
    print_text_key("  data", job->data, out);
    if (job->samples != 0) {
        ddp_text_add(out, "  samples: %zu\n", job->samples);
    }
    if (job->features != 0) {
        ddp_text_add(out, "  features: %zu\n", job->features);
    }
    print_sizes("batch_per_rank", job->batch_per_rank, job->ranks, out);
    if (job->shard_sizes != NULL) {
        print_sizes("shard_sizes", job->shard_sizes, job->ranks, out);
    }
    ddp_text_add(out, "  shuffle: %s\n", bool_text(job->is_shuffled));
    print_optimizer(job, out);
}

static void print_job_core(const struct harness_job *job, struct ddp_text *out)
{
    struct harness_flow budgets = {out, false};

    print_kb("bucket_cap_kb", job->bucket_cap_bytes, out);
    print_kb("first_bucket_cap_kb", job->first_bucket_cap_bytes, out);
    print_text_key("  bucket_order", job->bucket_order, out);
    print_text_key("  gradient_scale", job->gradient_scale, out);
    ddp_text_add(out, "  find_unused_parameters: %s\n", bool_text(job->find_unused_parameters));
    ddp_text_add(out, "  broadcast_buffers: %s\n", bool_text(job->broadcast_buffers));
    ddp_text_add(out, "  checkpoint_every: %u\n", job->checkpoint_every);
    ddp_text_add(out, "  checkpoint_wrapped: %s\n", bool_text(job->is_checkpoint_wrapped));
    ddp_text_add(out, "  seed: %llu\n", (unsigned long long)job->seed);
    print_text_key("  semantics", job->semantics, out);
    print_text_key("  collective", job->collective, out);
    print_text_key("  device", job->device, out);
    if (job->ranks_per_gpu > 1) {
        ddp_text_add(out, "  ranks_per_gpu: %u\n", job->ranks_per_gpu);
    }
    ddp_text_add(out, "  timeout_ms: %llu\n", (unsigned long long)(job->timeout_ns / 1000000u));
    if (job->is_join) {
        ddp_text_add(out,
                     "  join: {divide_by_initial_world_size: %s, "
                     "throw_on_early_termination: %s}\n",
                     bool_text(job->divide_by_initial_world_size),
                     bool_text(job->throw_on_early_termination));
    }
    ddp_text_add(out, "  phase_budget_ms: ");
    for (unsigned i = 0; i < DDP_PHASE_COUNT; i++) {
        harness_flow_add(&budgets, "%s: %llu", ddp_phase_name((enum ddp_phase)i),
                         (unsigned long long)job->phase_budget_ms[i]);
    }
    harness_flow_close(&budgets);
}

static void print_corrupt(const struct harness_action *action, struct harness_flow *flow)
{
    harness_flow_add(flow, "corrupt: %s", harness_corrupt_name(action->corrupt));
    switch (action->corrupt) {
    case HARNESS_CORRUPT_SCALE:
    case HARNESS_CORRUPT_SHIFT:
        harness_flow_number(flow, "value", action->value);
        break;
    case HARNESS_CORRUPT_SET:
        harness_flow_number(flow, "value", action->value);
        harness_flow_add(flow, "elem: %llu", (unsigned long long)action->elem);
        break;
    case HARNESS_CORRUPT_FLIP:
        harness_flow_add(flow, "bit: %llu", (unsigned long long)action->bit);
        if (action->bits != 1) {
            harness_flow_add(flow, "bits: %llu", (unsigned long long)action->bits);
        }
        harness_flow_add(flow, "elem: %llu", (unsigned long long)action->elem);
        if (action->count != 1) {
            harness_flow_add(flow, "count: %llu", (unsigned long long)action->count);
            harness_flow_add(flow, "stride: %llu", (unsigned long long)action->stride);
        }
        break;
    case HARNESS_CORRUPT_NAN:
        harness_flow_add(flow, "elem: %llu", (unsigned long long)action->elem);
        break;
    default:
        break;
    }
}

static void print_arg(const struct harness_action *action, struct harness_flow *flow)
{
    const char *name = NULL;

    harness_flow_add(flow, "arg: %s", harness_arg_name(action->arg));
    if (action->arg == HARNESS_ARG_KIND) {
        name = ddp_coll_kind_name((enum ddp_coll_kind)action->arg_value);
    } else if (action->arg == HARNESS_ARG_DTYPE) {
        name = ddp_dtype_name((enum ddp_dtype)action->arg_value);
    } else if (action->arg == HARNESS_ARG_REDOP) {
        name = ddp_redop_name((enum ddp_redop)action->arg_value);
    }
    if (name != NULL) {
        harness_flow_text(flow, "value", name);
    } else {
        harness_flow_add(flow, "value: %llu", (unsigned long long)action->arg_value);
    }
}

static void print_action(const struct harness_action *action, struct ddp_text *out)
{
    struct harness_flow flow = {out, false};
    const char *key = harness_action_name(action->kind);

    ddp_text_add(out, "    do: ");
    switch (action->kind) {
    case HARNESS_ACTION_KILL:
        harness_flow_text(&flow, key, harness_signal_name(action->signal));
        break;
    case HARNESS_ACTION_EXIT:
        harness_flow_add(&flow, "%s: %d", key, action->exit_code);
        break;
    case HARNESS_ACTION_STOP:
    case HARNESS_ACTION_SPIN:
        if (action->ms == 0) {
            harness_flow_add(&flow, "%s: forever", key);
            break;
        }
        harness_flow_add(&flow, "%s: %llu", key, (unsigned long long)action->ms);
        break;
    case HARNESS_ACTION_DELAY:
        harness_flow_add(&flow, "%s: %llu", key, (unsigned long long)action->ms);
        break;
    case HARNESS_ACTION_CORRUPT:
        print_corrupt(action, &flow);
        break;
    case HARNESS_ACTION_ARG:
        print_arg(action, &flow);
        break;
    default:
        harness_flow_add(&flow, "%s: true", key);
        break;
    }
    harness_flow_close(&flow);
}

static void print_fault(const struct harness_fault *fault, struct ddp_text *out)
{
    const struct harness_trigger *at = &fault->at;
    struct harness_flow flow = {out, false};

    ddp_text_add(out, "  - at: ");
    harness_flow_add(&flow, "rank: %u", at->rank);
    harness_flow_optional(&flow, "step", at->step);
    harness_flow_optional(&flow, "micro", at->micro);
    if (at->phase >= 0) {
        harness_flow_add(&flow, "phase: %s", ddp_phase_name((enum ddp_phase)at->phase));
    }
    harness_flow_optional(&flow, "bucket", at->bucket);
    harness_flow_optional(&flow, "param", at->param);
    harness_flow_optional(&flow, "layer", at->layer);
    harness_flow_optional(&flow, "seq", at->seq);
    harness_flow_add(&flow, "hit: %u", at->hit);
    harness_flow_add(&flow, "times: %u", at->times);
    harness_flow_close(&flow);
    print_text_key("    point", ddp_fault_point_name(fault->point), out);
    print_action(&fault->action, out);
}

static void print_restore(const struct harness_restore *restore, struct ddp_text *out)
{
    struct harness_flow flow = {out, false};

    ddp_text_add(out, "restore: ");
    harness_flow_add(&flow, "into: %s", restore->is_wrapped ? "wrapped" : "bare");
    harness_flow_text(&flow, "prefix", restore->prefix);
    harness_flow_add(&flow, "edit: %s", harness_edit_name(restore->edit));
    if (restore->key != NULL) {
        harness_flow_text(&flow, "key", restore->key);
    }
    if (restore->ranks != 0) {
        harness_flow_add(&flow, "ranks: %u", restore->ranks);
    }
    harness_flow_add(&flow, "skip_optimizer_state: %s", bool_text(restore->skip_optimizer_state));
    harness_flow_close(&flow);
}

static void print_culprit(const struct harness_expect *expect, struct ddp_text *out)
{
    ddp_text_add(out, "  culprit: ");
    if (expect->is_culprit_injected || expect->is_culprit_all) {
        ddp_text_add(out, "%s\n", expect->is_culprit_all ? "all" : "injected");
        return;
    }
    if (harness_rank_set_is_empty(&expect->culprits)) {
        ddp_text_add(out, "none\n");
        return;
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&expect->culprits); i++) {
        ddp_text_add(out, "%s%u", i == 0 ? "[" : ", ", harness_rank_set_at(&expect->culprits, i));
    }
    ddp_text_add(out, "]\n");
}

static void print_expect_run(const struct harness_expect *expect, struct ddp_text *out)
{
    if (expect->survivors.is_set) {
        struct harness_flow flow = {out, false};

        ddp_text_add(out, "  survivors: ");
        harness_flow_add(&flow, "status: %s", ddp_status_name(expect->survivors.status));
        if (expect->survivors.within_ms != 0) {
            harness_flow_add(&flow, "within_ms: %llu",
                             (unsigned long long)expect->survivors.within_ms);
        }
        harness_flow_close(&flow);
    }
    if (expect->restore.is_set) {
        struct harness_flow flow = {out, false};

        ddp_text_add(out, "  restore: ");
        harness_flow_optional(&flow, "from_step", expect->restore.from_step);
        if (expect->restore.equals_uninterrupted) {
            harness_flow_add(&flow, "equals: uninterrupted");
        }
        harness_flow_add(&flow, "refused: %s", harness_verdict_name(expect->restore.refused));
        harness_flow_close(&flow);
    }
}

static void print_expect(const struct harness_expect *expect, struct ddp_text *out)
{
    ddp_text_add(out, "expect:\n  verdict: %s\n", harness_verdict_name(expect->verdict));
    if (expect->also_count > 0) {
        ddp_text_add(out, "  also: [");
        for (uint32_t i = 0; i < expect->also_count; i++) {
            ddp_text_add(out, "%s%s", i == 0 ? "" : ", ", harness_verdict_name(expect->also[i]));
        }
        ddp_text_add(out, "]\n");
    }
    print_culprit(expect, out);
    if (expect->op.is_set) {
        struct harness_flow flow = {out, false};

        ddp_text_add(out, "  op: ");
        harness_flow_optional(&flow, "bucket", expect->op.bucket);
        harness_flow_optional(&flow, "seq", expect->op.seq);
        if (expect->op.params != NULL) {
            harness_flow_add(&flow, "params: ");
            print_names(expect->op.params, expect->op.param_count, out);
        }
        harness_flow_close(&flow);
    }
    if (expect->step >= 0) {
        ddp_text_add(out, "  step: %lld\n", (long long)expect->step);
    }
    if (expect->phase >= 0) {
        ddp_text_add(out, "  phase: %s\n", ddp_phase_name((enum ddp_phase)expect->phase));
    }
    if (expect->oracle != HARNESS_ORACLE_NONE) {
        print_text_key("  oracle", harness_oracle_name(expect->oracle), out);
    }
    if (expect->mode != HARNESS_MODE_NONE) {
        print_text_key("  mode", harness_mode_name(expect->mode), out);
    }
    print_expect_run(expect, out);
}

static void print_forbid(const struct harness_forbid *forbid, struct ddp_text *out)
{
    const char *const names[] = {"process", "shm", "fd"};
    const bool is_on[] = {forbid->leak_process, forbid->leak_shm, forbid->leak_fd};
    const char *separator = "";

    ddp_text_add(out, "forbid: {accuse: %s, leaks: [", forbid->accuse_others ? "others" : "none");
    for (size_t i = 0; i < 3; i++) {
        if (is_on[i]) {
            ddp_text_add(out, "%s%s", separator, names[i]);
            separator = ", ";
        }
    }
    ddp_text_add(out, "]}\n");
}

static void print_head(const struct harness_plan *plan, struct ddp_text *out)
{
    struct harness_flow drivers = {out, false};

    ddp_text_add(out, "# %s\n", plan->purpose);
    print_text_key("id", plan->id, out);
    if (plan->title != NULL) {
        print_text_key("title", plan->title, out);
    }
    if (plan->cell != NULL && plan->cell[0] != '\0') {
        print_text_key("cell", plan->cell, out);
    }
    if (plan->cover_count > 0) {
        ddp_text_add(out, "covers: ");
        print_names(plan->covers, plan->cover_count, out);
        ddp_text_add(out, "\n");
    }
    ddp_text_add(out, "drivers: [");
    for (unsigned i = 0; i < HARNESS_DRIVER_COUNT; i++) {
        if (plan->is_driver[i]) {
            ddp_text_add(out, "%s%s", drivers.is_open ? ", " : "",
                         harness_driver_name((enum harness_driver)i));
            drivers.is_open = true;
        }
    }
    ddp_text_add(out, "]\n");
}

void harness_plan_print(const struct harness_plan *plan, struct ddp_text *out)
{
    print_head(plan, out);
    print_job_model(&plan->job, out);
    print_job_core(&plan->job, out);
    if (plan->fault_count > 0) {
        ddp_text_add(out, "faults:\n");
    }
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        print_fault(&plan->faults[i], out);
    }
    if (plan->restore.is_set) {
        print_restore(&plan->restore, out);
    }
    print_expect(&plan->expect, out);
    print_forbid(&plan->forbid, out);
    if (plan->canary.is_set) {
        ddp_text_add(out, "canary: {outcome: %s, verdict: %s}\n",
                     harness_outcome_name(plan->canary.outcome),
                     harness_verdict_name(plan->canary.verdict));
    }
}
