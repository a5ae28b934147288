/* Purpose: the checkpoint that a run left behind: readable, with exactly the model's keys, and bit
 * for bit the emulated state after the steps that it names.
 * Idea: values are judged only if training was as emulated until then; a wrong parameter that was
 * saved faithfully is not the checkpoint's fault. */
#include <stdio.h>
#include <string.h>

#include "harness/emulation/checkpoint_state.h"
#include "harness/oracle/subject.h"

static void add(enum harness_verdict verdict, const char *text, int32_t param,
                struct harness_findings *out)
{
    struct harness_finding finding;

    harness_finding_init(&finding, out->mem, verdict, HARNESS_ORACLE_CHECKPOINT,
                         HARNESS_MODE_BITWISE);
    harness_rank_set_add(&finding.culprits, 0); /* rank 0 writes */
    if (param >= 0) {
        harness_finding_add_param(&finding, (uint32_t)param);
    }
    (void)snprintf(finding.text, sizeof(finding.text), "%s", text);
    harness_findings_add(out, &finding);
}

/* One expected tensor. */
struct expected {
    char key[512];
    int32_t param; /* -1: a buffer */
    struct harness_tensor tensor;
    bool is_step_count;
};

static size_t expected_count(const struct harness_emulation *e)
{
    return (2 + (size_t)e->slot_count) * e->params.count + e->buffers.count +
           harness_emulation_hook_state_count(e);
}

static void set_model_key(const struct harness_emulation *e, const char *name, struct expected *out)
{
    (void)snprintf(out->key, sizeof(out->key), "%s%s",
                   e->input->plan->job.is_checkpoint_wrapped ? "module." : "", name);
}

static void expect_param(const struct harness_emulation *e, size_t kind, size_t p,
                         struct expected *out)
{
    const struct harness_state *state = &e->snapshot.state;
    const char *name = e->params.items[p].name;

    out->param = (int32_t)p;
    if (kind == 0) {
        set_model_key(e, name, out);
        out->tensor = harness_layout_at(&e->params, state->param, 0, p);
    } else if (kind <= e->slot_count) {
        (void)snprintf(out->key, sizeof(out->key), "optim.%s.%s", e->slot_name[kind - 1], name);
        out->tensor = harness_layout_at(&e->params, state->slot[kind - 1], 0, p);
    } else {
        (void)snprintf(out->key, sizeof(out->key), "optim.step.%s", name);
        out->is_step_count = true;
        out->tensor = (struct harness_tensor){DDP_DTYPE_I64, 1, sizeof(uint64_t), &state->taken[p]};
    }
}

/* Number i of the expected tensors: parameters, state slots, step counts, buffers, the hook's. */
static void expect(const struct harness_emulation *e, size_t i, struct expected *out)
{
    size_t kind = i / e->params.count;
    size_t buffers_begin = (2 + (size_t)e->slot_count) * e->params.count;

    *out = (struct expected){.param = -1};
    if (i < buffers_begin) {
        expect_param(e, kind, i % e->params.count, out);
        return;
    }
    if (i - buffers_begin >= e->buffers.count) {
        harness_emulation_hook_state(e, i - buffers_begin - e->buffers.count, out->key,
                                     sizeof(out->key), &out->tensor);
        return;
    }
    set_model_key(e, e->buffers.items[i - buffers_begin].name, out);
    out->tensor = harness_layout_at(&e->buffers, e->snapshot.buffer, 0, i - buffers_begin);
}

static bool check_keys(const struct harness_emulation *e, const struct harness_checkpoint *file,
                       struct harness_findings *out)
{
    char text[512];
    struct expected expected;

    for (size_t i = 0; i < expected_count(e); i++) {
        bool is_prefixed;

        expect(e, i, &expected);
        if (harness_checkpoint_find(file, expected.key) != NULL) {
            continue;
        }
        is_prefixed = harness_checkpoint_find_bare(file, expected.key) != NULL;
        (void)snprintf(text, sizeof(text),
                       is_prefixed ? "key %.300s is there only with another prefix"
                                   : "key %.300s is missing",
                       expected.key);
        add(is_prefixed ? HARNESS_VERDICT_CHECKPOINT_PREFIX : HARNESS_VERDICT_CHECKPOINT_KEYS, text,
            expected.param, out);
        return false;
    }
    if (file->tensor_count != expected_count(e)) {
        (void)snprintf(text, sizeof(text), "%zu tensors where %zu are expected", file->tensor_count,
                       expected_count(e));
        add(HARNESS_VERDICT_CHECKPOINT_KEYS, text, -1, out);
        return false;
    }
    return true;
}

static bool is_shaped(const struct harness_emulation *e, const struct expected *expected,
                      const struct harness_checkpoint_tensor *tensor)
{
    const struct ddp_param *param;

    if (tensor->dtype != expected->tensor.dtype ||
        tensor->elem_count != expected->tensor.elem_count) {
        return false;
    }
    if (expected->param < 0 || expected->is_step_count) {
        return true;
    }
    param = &e->input->params[expected->param];
    if (tensor->ndim != param->ndim) {
        return false;
    }
    for (uint32_t i = 0; i < param->ndim; i++) {
        if (tensor->shape[i] != param->shape[i]) {
            return false;
        }
    }
    return true;
}

/* The first value of a tensor of the right shape that differs in a bit, or SIZE_MAX. */
static size_t find_difference(const struct expected *expected,
                              const struct harness_checkpoint_tensor *tensor)
{
    size_t elem_bytes = ddp_dtype_size_bytes(tensor->dtype);

    for (size_t i = 0; i < tensor->elem_count; i++) {
        uint64_t value = 0;

        harness_checkpoint_read(tensor, i, &value);
        if (memcmp(&value, (const char *)expected->tensor.data + i * elem_bytes, elem_bytes) != 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void check_values(const struct harness_emulation *e, const struct harness_checkpoint *file,
                         struct harness_findings *out)
{
    char text[512];
    struct expected expected;

    for (size_t i = 0; i < expected_count(e); i++) {
        const struct harness_checkpoint_tensor *tensor;
        size_t bad;

        expect(e, i, &expected);
        tensor = harness_checkpoint_find(file, expected.key);
        if (tensor == NULL || !is_shaped(e, &expected, tensor)) {
            (void)snprintf(text, sizeof(text), "%.300s has another type or shape", expected.key);
            add(HARNESS_VERDICT_CHECKPOINT_DTYPE, text, expected.param, out);
            return;
        }
        bad = find_difference(&expected, tensor);
        if (bad != SIZE_MAX) {
            (void)snprintf(text, sizeof(text), "%.300s[%zu] is not the value after %u steps",
                           expected.key, bad, e->snapshot.steps_done);
            add(HARNESS_VERDICT_CHECKPOINT_CORRUPTED, text, expected.param, out);
            return;
        }
    }
}

static void check_file(const struct harness_emulation *e, const struct harness_checkpoint *file,
                       uint32_t saved, struct harness_findings *out)
{
    char text[512];

    if (!file->is_found) {
        add(HARNESS_VERDICT_CHECKPOINT_TORN, "a checkpoint was saved, and there is no file", -1,
            out);
        return;
    }
    if (file->damage != HARNESS_VERDICT_NONE) {
        add(file->damage, file->text, -1, out);
        return;
    }
    /* A rank that ended between rename and record may have left a newer file, never an older. */
    if (file->steps_done < (int64_t)saved) {
        (void)snprintf(text, sizeof(text), "the file is of step %lld, the last one saved of %u",
                       (long long)file->steps_done, saved);
        add(HARNESS_VERDICT_CHECKPOINT_STALE, text, -1, out);
        return;
    }
    if (!e->snapshot.is_taken || (file->steps_done > 0 && !harness_compare_is_known_until(
                                                              e, (uint32_t)file->steps_done - 1))) {
        return;
    }
    if (check_keys(e, file, out)) {
        check_values(e, file, out);
    }
}

/* Rank 0 went on past a step after which a checkpoint was due, and wrote none. */
static void check_due(const struct harness_emulation *e, struct harness_findings *out)
{
    uint32_t every = e->input->plan->job.checkpoint_every;
    const struct harness_trace_event *end = harness_index_end(&e->index, 0);
    size_t loss_count = 0;
    size_t save_count = 0;
    size_t next = 0;
    const struct harness_trace_event *const *losses =
        harness_index_list(&e->index, 0, DDP_EVENT_LOSS, &loss_count);
    const struct harness_trace_event *const *saves =
        harness_index_list(&e->index, 0, DDP_EVENT_CHECKPOINT_SAVED, &save_count);
    uint64_t passed = loss_count > 0 ? losses[loss_count - 1]->entry.step : 0;
    char text[128];

    if (harness_index_is_ended_ok(&e->index, 0) && end->entry.arg[1] > passed) {
        passed = end->entry.arg[1];
    }
    for (uint64_t due = e->start_step / (every == 0 ? 1 : every) * every + every;
         every > 0 && due <= passed; due += every) {
        while (next < save_count && saves[next]->entry.arg[0] < due) {
            next++;
        }
        if ((next < save_count && saves[next]->entry.arg[0] == due) ||
            !harness_compare_is_known_until(e, (uint32_t)due - 1)) {
            continue;
        }
        (void)snprintf(text, sizeof(text), "no checkpoint was written after %llu steps, when due",
                       (unsigned long long)due);
        add(HARNESS_VERDICT_CHECKPOINT_STALE, text, -1, out);
        if (out->count > 0) {
            out->items[out->count - 1].step = (int32_t)(due - 1);
        }
        return;
    }
}

ddp_status harness_check_checkpoint(const struct harness_emulation *e, struct harness_findings *out,
                                    struct ddp_err *err)
{
    struct harness_checkpoint file;
    struct harness_rank_set writers;
    uint32_t saved = 0;
    char path[4096];

    check_due(e, out);
    if (!harness_checkpoint_last_save(e, &saved, &writers) ||
        !harness_checkpoint_path(e->input->run_dir, path, sizeof(path))) {
        return DDP_OK;
    }
    if (harness_rank_set_count(&writers) > 1) {
        struct harness_finding finding;

        harness_finding_init(&finding, out->mem, HARNESS_VERDICT_CHECKPOINT_CLOBBERED,
                             HARNESS_ORACLE_CHECKPOINT, HARNESS_MODE_STATUS);
        finding.culprits = writers;
        (void)snprintf(finding.text, sizeof(finding.text), "%u ranks wrote the same checkpoint",
                       harness_rank_set_count(&writers));
        harness_findings_add(out, &finding);
    }
    DDP_TRY(harness_checkpoint_open(e->mem, harness_emulation_files(e->input), path, &file, err));
    check_file(e, &file, saved, out);
    harness_checkpoint_close(&file);
    return DDP_OK;
}
