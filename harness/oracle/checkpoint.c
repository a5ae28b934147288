/* Purpose: the checkpoint that a run left behind: readable, with exactly the model's keys, and bit
 * for bit the emulated state at the step it claims.
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

    harness_finding_init(&finding, verdict, HARNESS_ORACLE_CHECKPOINT, HARNESS_MODE_BITWISE);
    harness_rank_set_add(&finding.culprits, 0); /* rank 0 writes */
    if (param >= 0) {
        harness_subject_add_param(&finding, (uint32_t)param);
    }
    (void)snprintf(finding.text, sizeof(finding.text), "%s", text);
    harness_findings_add(out, &finding);
}

/* One expected tensor: its key, and the values it should hold. */
struct expected {
    char key[512];
    uint32_t param;
    const float *values; /* NULL: a step count */
    uint64_t taken;
    bool is_buffer;
    size_t elem_count; /* of a buffer */
};

static size_t expected_count(const struct harness_emulation *e)
{
    return (2 + (size_t)e->slot_count) * e->param_count + e->buffer_count;
}

static void expect_buffer(const struct harness_emulation *e, size_t b, struct expected *out)
{
    (void)snprintf(out->key, sizeof(out->key), "%s%s",
                   e->input->plan->job.is_checkpoint_wrapped ? "module." : "", e->buffers[b].name);
    out->is_buffer = true;
    out->elem_count = e->buffers[b].elem_count;
    out->values = e->snapshot.buffer;
    for (size_t k = 0; k < b; k++) {
        out->values += e->buffers[k].elem_count;
    }
}

/* Number i of the expected tensors: parameters, state slots, step counts, buffers. */
static void expect(const struct harness_emulation *e, size_t i, struct expected *out)
{
    size_t kind = i / e->param_count;
    const struct harness_state *state = &e->snapshot;
    struct ref_optimizer *optimizer = ref_trainer_optimizer(e->trainer);

    *out = (struct expected){.param = (uint32_t)(i % e->param_count)};
    if (kind >= 2 + (size_t)e->slot_count) {
        expect_buffer(e, i - (2 + (size_t)e->slot_count) * e->param_count, out);
        return;
    }
    out->taken = state->taken[out->param];
    if (kind == 0) {
        (void)snprintf(out->key, sizeof(out->key), "%s%s",
                       e->input->plan->job.is_checkpoint_wrapped ? "module." : "",
                       e->input->params[out->param].name);
        out->values = state->param + e->param_first[out->param];
    } else if (kind <= e->slot_count) {
        (void)snprintf(out->key, sizeof(out->key), "optim.%s.%s",
                       ref_optimizer_slot_name(optimizer, kind - 1),
                       e->input->params[out->param].name);
        out->values = state->slot[kind - 1] + e->param_first[out->param];
    } else {
        (void)snprintf(out->key, sizeof(out->key), "optim.step.%s",
                       e->input->params[out->param].name);
    }
}

static bool has_bare_key(const struct harness_checkpoint *file, const char *key)
{
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (strcmp(harness_checkpoint_bare(file->tensors[i].name), harness_checkpoint_bare(key)) ==
            0) {
            return true;
        }
    }
    return false;
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
        is_prefixed = has_bare_key(file, expected.key);
        (void)snprintf(text, sizeof(text),
                       is_prefixed ? "key %.300s is there only with another prefix"
                                   : "key %.300s is missing",
                       expected.key);
        add(is_prefixed ? HARNESS_VERDICT_CHECKPOINT_PREFIX : HARNESS_VERDICT_CHECKPOINT_KEYS, text,
            expected.is_buffer ? -1 : (int32_t)expected.param, out);
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
    const struct ddp_param *param = &e->input->params[expected->param];

    if (expected->values == NULL) {
        return tensor->dtype == DDP_DTYPE_I64 && tensor->elem_count == 1;
    }
    if (expected->is_buffer) {
        return tensor->dtype == DDP_DTYPE_F32 && tensor->elem_count == expected->elem_count;
    }
    if (tensor->dtype != DDP_DTYPE_F32 || tensor->ndim != param->ndim) {
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
static size_t find_difference(const struct harness_emulation *e, const struct expected *expected,
                              const struct harness_checkpoint_tensor *tensor)
{
    if (expected->values == NULL) {
        return harness_checkpoint_u64(tensor, 0) == expected->taken ? SIZE_MAX : 0;
    }
    if (expected->is_buffer && e->input->plan->job.is_join) {
        return SIZE_MAX; /* the last rank with data has the say, not rank 0 */
    }
    for (size_t i = 0; i < tensor->elem_count; i++) {
        uint32_t bits;

        memcpy(&bits, &expected->values[i], sizeof(bits));
        if (bits != harness_checkpoint_u32(tensor, i)) {
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
            add(HARNESS_VERDICT_CHECKPOINT_DTYPE, text,
                expected.is_buffer ? -1 : (int32_t)expected.param, out);
            return;
        }
        bad = find_difference(e, &expected, tensor);
        if (bad != SIZE_MAX) {
            (void)snprintf(text, sizeof(text), "%.300s[%zu] is not the value after %u steps",
                           expected.key, bad, e->snapshot.steps_done);
            add(HARNESS_VERDICT_CHECKPOINT_CORRUPTED, text,
                expected.is_buffer ? -1 : (int32_t)expected.param, out);
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
    if (!e->is_snapshot_taken || (file->steps_done > 0 && !harness_compare_is_clean_until(
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
            !harness_compare_is_clean_until(e, (uint32_t)due - 1)) {
            continue;
        }
        (void)snprintf(text, sizeof(text), "no checkpoint was written after %llu steps, when due",
                       (unsigned long long)due);
        add(HARNESS_VERDICT_CHECKPOINT_STALE, text, -1, out);
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

        harness_finding_init(&finding, HARNESS_VERDICT_CHECKPOINT_CLOBBERED,
                             HARNESS_ORACLE_CHECKPOINT, HARNESS_MODE_STATUS);
        finding.culprits = writers;
        (void)snprintf(finding.text, sizeof(finding.text), "%u ranks wrote the same checkpoint",
                       harness_rank_set_count(&writers));
        harness_findings_add(out, &finding);
    }
    DDP_TRY(harness_checkpoint_open(e->mem, path, &file, err));
    check_file(e, &file, saved, out);
    harness_checkpoint_close(&file);
    return DDP_OK;
}
