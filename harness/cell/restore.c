/* The restore run: a fresh job that starts from the checkpoint of the first one, after the plan's
 * edit of the file. Refusals and differences become facts for the judge, not findings of the cell.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/checkpoint/safetensors.h"
#include "harness/cell/stage.h"
#include "harness/judge/judge.h"
#include "harness/tensor/checkpoint_file.h"

/* Put "module." before every second name. The dict's table of names is not kept up: the dict is
 * only written. */
static ddp_status mix_prefix(struct ddp_state_dict *dict)
{
    for (size_t i = 0; i < dict->entry_count; i += 2) {
        struct ddp_text text;

        ddp_text_init(&text, dict->mem);
        ddp_text_add(&text, "module.%s", dict->entries[i].name);
        if (text.is_failed) {
            ddp_text_fini(&text);
            return DDP_E_NOMEM;
        }
        ddp_mem_free(dict->mem, dict->entries[i].name);
        dict->entries[i].name = text.data;
    }
    return DDP_OK;
}

static ddp_status drop_entry(struct ddp_state_dict *dict, const char *key, struct ddp_err *err)
{
    for (size_t i = 0; i < dict->entry_count; i++) {
        if (strcmp(dict->entries[i].name, key) == 0) {
            ddp_mem_free(dict->mem, dict->entries[i].name);
            memmove(&dict->entries[i], &dict->entries[i + 1],
                    (dict->entry_count - i - 1) * sizeof *dict->entries);
            dict->entry_count--;
            return DDP_OK;
        }
    }
    return ddp_err_set(err, DDP_E_NOT_FOUND, "restore.key: the checkpoint has no tensor \"%s\"",
                       key);
}

static ddp_status edit_dict(const struct harness_restore *restore, struct ddp_state_dict *dict,
                            struct ddp_err *err)
{
    static const float extra[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    static const uint64_t extra_shape[1] = {4};

    switch (restore->edit) {
    case HARNESS_EDIT_ADD_PREFIX:
        return ddp_state_dict_add_prefix(dict, "module.");
    case HARNESS_EDIT_DOUBLE_PREFIX:
        return ddp_state_dict_add_prefix(dict, "module.module.");
    case HARNESS_EDIT_MIXED_PREFIX:
        return mix_prefix(dict);
    case HARNESS_EDIT_DROP_KEY:
        return drop_entry(dict, restore->key, err);
    case HARNESS_EDIT_EXTRA_KEY:
        if (ddp_state_dict_find(dict, restore->key) != NULL) {
            return ddp_err_set(err, DDP_E_KEYS,
                               "restore.key: the checkpoint has a tensor \"%s\" already",
                               restore->key);
        }
        return ddp_state_dict_add(dict, restore->key, DDP_DTYPE_F32, 1, extra_shape, extra);
    case HARNESS_EDIT_NONE:
    case HARNESS_EDIT_TRUNCATE:
    case HARNESS_EDIT_FLIP_BYTE:
    case HARNESS_EDIT_HEAD:
    case HARNESS_EDIT_HEADER_SIZE:
    case HARNESS_EDIT_HEADER:
    case HARNESS_EDIT_KIND_COUNT:
        break;
    }
    return DDP_OK;
}

/* Offset in the file of the first byte of a tensor: 8 + header length + its begin offset. */
static ddp_status tensor_offset(const unsigned char *file, const struct ddp_state_dict *dict,
                                const char *key, size_t *out, struct ddp_err *err)
{
    const struct ddp_tensor_entry *entry = ddp_state_dict_find(dict, key);

    if (entry == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "restore.key: the checkpoint has no tensor \"%s\"",
                           key);
    }
    *out = (size_t)((const unsigned char *)entry->data - file);
    return DDP_OK;
}

static ddp_status flip_byte(struct harness_cell *cell, unsigned char *data, size_t size_bytes,
                            struct ddp_err *err)
{
    struct ddp_state_dict dict;
    size_t offset = 0;
    ddp_status status;

    ddp_state_dict_init(&dict, cell->mem);
    status = ddp_safetensors_parse(data, size_bytes, &dict, err);
    if (status == DDP_OK) {
        status = tensor_offset(data, &dict, cell->plan.restore.key, &offset, err);
    }
    ddp_state_dict_fini(&dict);
    DDP_TRY(status);
    data[offset] ^= 0x10;
    return DDP_OK;
}

/* A safetensors file begins with the length of its header: 8 bytes, the lowest first. */
static void put_header_size(unsigned char *data, uint64_t header_size_bytes)
{
    for (unsigned i = 0; i < 8; i++) {
        data[i] = (unsigned char)(header_size_bytes >> (8 * i));
    }
}

static uint64_t header_size(const unsigned char *data)
{
    uint64_t size_bytes = 0;

    for (unsigned i = 0; i < 8; i++) {
        size_bytes |= (uint64_t)data[i] << (8 * i);
    }
    return size_bytes;
}

/* The first `find` from byte *at on becomes `put`, and *at what follows it; *data becomes a new
 * block. Errors: E_NOT_FOUND, E_NOMEM. */
static ddp_status replace_next(struct harness_cell *cell, unsigned char **data, size_t *size_bytes,
                               size_t *at)
{
    const struct harness_restore *restore = &cell->plan.restore;
    const size_t find_bytes = strlen(restore->find);
    const size_t put_bytes = strlen(restore->put);
    const uint64_t header_bytes = header_size(*data);
    const unsigned char *found =
        memmem(*data + *at, (size_t)header_bytes + 8 - *at, restore->find, find_bytes);
    const size_t before = found == NULL ? 0 : (size_t)(found - *data);
    const size_t after = *size_bytes - before - find_bytes;
    unsigned char *edited;

    if (found == NULL) {
        return DDP_E_NOT_FOUND;
    }
    edited = ddp_mem_array(cell->mem, before + put_bytes + after, 1);
    if (edited == NULL) {
        return DDP_E_NOMEM;
    }
    memcpy(edited, *data, before);
    memcpy(edited + before, restore->put, put_bytes);
    memcpy(edited + before + put_bytes, found + find_bytes, after);
    put_header_size(edited, header_bytes + put_bytes - find_bytes);
    *data = edited;
    *size_bytes = before + put_bytes + after;
    *at = before + put_bytes;
    return DDP_OK;
}

static ddp_status edit_header(struct harness_cell *cell, unsigned char **data, size_t *size_bytes,
                              struct ddp_err *err)
{
    const struct harness_restore *restore = &cell->plan.restore;
    size_t at = 8;
    ddp_status status = replace_next(cell, data, size_bytes, &at);

    if (status == DDP_E_NOT_FOUND) {
        return ddp_err_set(err, status, "restore.find: the header has no \"%s\"", restore->find);
    }
    while (status == DDP_OK && restore->is_everywhere) {
        status = replace_next(cell, data, size_bytes, &at);
    }
    return status == DDP_E_NOT_FOUND ? DDP_OK : status;
}

/* Edits of the file as it is, not of the tensors in it; and no edit. */
static bool is_of_bytes(enum harness_edit_kind edit)
{
    return edit == HARNESS_EDIT_NONE || edit == HARNESS_EDIT_TRUNCATE ||
           edit == HARNESS_EDIT_FLIP_BYTE || edit == HARNESS_EDIT_HEAD ||
           edit == HARNESS_EDIT_HEADER_SIZE || edit == HARNESS_EDIT_HEADER;
}

static ddp_status edit_bytes(struct harness_cell *cell, const char *to, unsigned char *data,
                             size_t size_bytes, struct ddp_err *err)
{
    const struct harness_restore *restore = &cell->plan.restore;

    if (size_bytes < 8 &&
        (restore->edit == HARNESS_EDIT_HEADER || restore->edit == HARNESS_EDIT_HEADER_SIZE)) {
        return ddp_err_set(err, DDP_E_INVALID, "the checkpoint has no header to edit");
    }
    if (restore->edit == HARNESS_EDIT_TRUNCATE) {
        size_bytes -= size_bytes < 64 ? size_bytes / 2 : 64;
    } else if (restore->edit == HARNESS_EDIT_HEAD) {
        size_bytes = restore->edit_bytes < size_bytes ? (size_t)restore->edit_bytes : size_bytes;
    } else if (restore->edit == HARNESS_EDIT_HEADER_SIZE) {
        put_header_size(data, restore->edit_bytes);
    } else if (restore->edit == HARNESS_EDIT_FLIP_BYTE) {
        DDP_TRY(flip_byte(cell, data, size_bytes, err));
    } else if (restore->edit == HARNESS_EDIT_HEADER) {
        DDP_TRY(edit_header(cell, &data, &size_bytes, err));
    }
    return ddp_files_write_atomic(harness_stage_files(&cell->config), to, data, size_bytes, err);
}

static ddp_status edit_tensors(struct harness_cell *cell, const char *to, const void *data,
                               size_t size_bytes, struct ddp_err *err)
{
    struct ddp_state_dict dict;
    struct ddp_env env;
    struct ddp_idle_process idle;
    ddp_status status;

    ddp_env_init_process(&env, &idle, 0, 1);
    env.files = harness_stage_files(&cell->config);
    ddp_state_dict_init(&dict, cell->mem);
    status = ddp_safetensors_parse(data, size_bytes, &dict, err);
    if (status == DDP_OK) {
        status = edit_dict(&cell->plan.restore, &dict, err);
    }
    if (status == DDP_OK) {
        status = ddp_safetensors_save(&env, to, &dict, err);
    }
    ddp_state_dict_fini(&dict);
    return status;
}

/* It says nothing of the checkpoint that was to be edited. */
static bool is_of_system(ddp_status status)
{
    return status == DDP_E_NOMEM || status == DDP_E_IO || status == DDP_E_NO_SPACE ||
           status == DDP_E_NO_FD;
}

/* Copy the checkpoint into the restore run's folder, edited, if there is one. A first run in which
 * something was found may have left none, or one that the edit does not fit: the second run gets
 * what there is. */
static ddp_status copy_checkpoint(struct harness_cell *cell, const char *from, const char *to,
                                  struct ddp_err *err)
{
    struct ddp_files *files = harness_stage_files(&cell->config);
    const bool is_found = cell->findings.count > 0;
    void *data = NULL;
    size_t size_bytes = 0;
    ddp_status status;

    status = files->ops->read_all(files, from, cell->mem, &data, &size_bytes, err);
    if (status == DDP_E_NOT_FOUND && (is_found || cell->plan.restore.edit == HARNESS_EDIT_NONE)) {
        return DDP_OK; /* The first run ended too early: the second one says that there is none. */
    }
    DDP_TRY(status);
    status = is_of_bytes(cell->plan.restore.edit) ? edit_bytes(cell, to, data, size_bytes, err)
                                                  : edit_tensors(cell, to, data, size_bytes, err);
    if (status != DDP_OK && is_found && !is_of_system(status)) {
        status = ddp_files_write_atomic(files, to, data, size_bytes, err);
    }
    ddp_mem_free(cell->mem, data);
    return status;
}

/* Steps completed in the checkpoint, as the judge's own reader finds them in its metadata; 0: they
 * cannot be read. What the core makes of the file is for the restore run to show. */
static ddp_status checkpoint_steps(struct harness_cell *cell, const char *path, uint32_t *out)
{
    struct harness_checkpoint checkpoint;

    *out = 0;
    DDP_TRY(harness_checkpoint_open(cell->mem, harness_stage_files(&cell->config), path,
                                    &checkpoint, NULL));
    if (checkpoint.is_found && checkpoint.damage == HARNESS_VERDICT_NONE &&
        checkpoint.steps_done >= 0 && checkpoint.steps_done <= INT32_MAX) {
        *out = (uint32_t)checkpoint.steps_done;
    }
    harness_checkpoint_close(&checkpoint);
    return DDP_OK;
}

/* A file was loaded that should have been refused (oracle restore). All else follows from that. */
static bool is_damage(const struct harness_finding *finding)
{
    return finding->oracle == HARNESS_ORACLE_RESTORE &&
           finding->verdict != HARNESS_VERDICT_CHECKPOINT_STATE;
}

/* What says why the restored run does not equal an uninterrupted one: damage that was loaded, else
 * of all that follows from nothing else the first about the checkpoint, else the first. NULL: it
 * equals one. */
static const struct harness_finding *reason_of(const struct harness_findings *findings)
{
    const struct harness_finding *first = NULL;

    for (size_t i = 0; i < findings->count; i++) {
        if (is_damage(&findings->items[i])) {
            return &findings->items[i];
        }
    }
    for (size_t i = 0; i < findings->count; i++) {
        const struct harness_finding *finding = &findings->items[i];

        if (harness_judge_is_explained(findings, i)) {
            continue;
        }
        if (harness_verdict_family(finding->verdict) == HARNESS_FAMILY_CHECKPOINT) {
            return finding;
        }
        first = first == NULL ? finding : first;
    }
    return first;
}

/* A rank that did not load the checkpoint posts the steps before it, too, and under join takes more
 * batches than are left; by the state of its hook a rank decides what it posts; and what was not
 * restored is saved so again. */
static bool is_of_unloaded(const struct harness_plan *plan, const struct harness_finding *reason,
                           const struct harness_finding *finding)
{
    const enum harness_family family = harness_verdict_family(finding->verdict);
    const bool is_from_start = reason->mode == HARNESS_MODE_PROVABLE;
    const bool is_posted_so = is_from_start || plan->job.hook == HARNESS_HOOK_LOCAL_SGD ||
                              plan->job.hook == HARNESS_HOOK_POWERSGD;
    const bool is_own = family == HARNESS_FAMILY_CHECKPOINT ||
                        (finding->verdict == HARNESS_VERDICT_DATA_MISSING && is_from_start &&
                         plan->job.join.is_set) ||
                        (family == HARNESS_FAMILY_MISMATCH && is_posted_so);
    /* Under join those whose data has ended post what ranks post that still have some. */
    const bool is_following = plan->job.join.is_set && family == HARNESS_FAMILY_MISMATCH &&
                              is_from_start && finding->step + 1 >= (int32_t)plan->job.steps;

    return reason->verdict == HARNESS_VERDICT_CHECKPOINT_STATE &&
           (is_following ||
            (is_own && harness_rank_set_is_subset(&finding->culprits, &reason->culprits)));
}

static void conclude_findings(const struct harness_plan *plan,
                              const struct harness_findings *findings,
                              struct harness_restore_result *out)
{
    const struct harness_finding *reason = reason_of(findings);

    if (reason == NULL) {
        return;
    }
    out->verdict = reason->verdict;
    out->culprits = reason->culprits;
    out->is_damage_loaded = is_damage(reason);
    (void)snprintf(out->text, sizeof out->text, "%s", reason->text);
    for (size_t i = 0;
         !out->is_damage_loaded && i < findings->count && out->other == HARNESS_VERDICT_NONE; i++) {
        const struct harness_finding *finding = &findings->items[i];

        if (finding != reason && !harness_judge_is_explained(findings, i) &&
            !is_of_unloaded(plan, reason, finding)) {
            out->other = finding->verdict;
            (void)snprintf(out->other_text, sizeof out->other_text, "%s", finding->text);
        }
    }
}

ddp_status harness_stage_conclude(struct harness_cell *second, struct harness_restore_result *out)
{
    const struct harness_trace_event *loaded;
    size_t cursor = 0;

    out->fired_count =
        ddp_mem_array(second->mem, second->plan.fault_count, sizeof *out->fired_count);
    if (out->fired_count == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < second->plan.fault_count; i++) {
        (void)harness_trace_fired_ns(&second->trace, i, &out->fired_count[i]);
    }

    out->from_step = -1;
    loaded = harness_trace_next(&second->trace, &cursor, -1, DDP_EVENT_CHECKPOINT_LOADED);
    if (loaded != NULL && loaded->entry.arg[3] == (uint64_t)(uint32_t)DDP_OK) {
        out->from_step = (int64_t)loaded->entry.arg[0];
    }
    out->is_equal = second->findings.count == 0 && out->from_step >= 0;
    DDP_TRY(
        harness_judge_order(&second->plan, &second->program, &second->trace, &second->findings));
    conclude_findings(&second->plan, &second->findings, out);
    out->is_said = second->plan.restore.says == NULL ||
                   harness_stage_is_said(second, second->run_dir, second->plan.job.ranks,
                                         second->plan.restore.says, &out->said);
    return DDP_OK;
}

/* The faults of the restore run, as those of a plan of its own. */
static ddp_status take_faults(const struct harness_cell *cell, struct harness_plan *plan)
{
    plan->fault_count = 0;
    plan->faults = ddp_mem_array(cell->mem, cell->plan.fault_count, sizeof *plan->faults);
    if (plan->faults == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < cell->plan.fault_count; i++) {
        if (harness_plan_run_of(&cell->plan.faults[i]) == HARNESS_RUN_RESTORE) {
            plan->faults[plan->fault_count] = cell->plan.faults[i];
            plan->faults[plan->fault_count++].at.run = HARNESS_RUN_FIRST;
        }
    }
    return DDP_OK;
}

/* A number for each rank of a larger world: the parser sees to it that all are equal. */
static ddp_status widen_batches(const struct harness_cell *cell, struct harness_job *job)
{
    const size_t *given = cell->plan.job.batch_per_rank;

    job->batch_per_rank = ddp_mem_array(cell->mem, job->ranks, sizeof *job->batch_per_rank);
    if (job->batch_per_rank == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        job->batch_per_rank[rank] = given[rank < cell->plan.job.ranks ? rank : 0];
    }
    return DDP_OK;
}

ddp_status harness_stage_restored(const struct harness_cell *cell, struct harness_cell *second)
{
    DDP_TRY(checkpoint_steps(second,
                             harness_stage_path(cell->mem, second->run_dir, "given.safetensors"),
                             &second->restored_step));
    second->plan.job.start_step = second->restored_step;
    second->kept = NULL; /* what is at hand is of the first run */
    second->wanted = (struct harness_hashes){.mem = second->mem};
    if (cell->plan.restore.ranks != 0) {
        second->plan.job.ranks = cell->plan.restore.ranks;
        DDP_TRY(widen_batches(cell, &second->plan.job));
    }
    /* As many ranks as before go on by the number of the step. */
    if (second->plan.job.ranks != cell->plan.job.ranks) {
        harness_stage_move_start(cell, second->restored_step, &second->plan);
    }
    return take_faults(cell, &second->plan);
}

void harness_stage_adopt_gap(struct harness_cell *cell, const struct harness_cell *second)
{
    if (second->findings.is_evidence_lost && !cell->findings.is_evidence_lost) {
        cell->findings.is_evidence_lost = true;
        (void)snprintf(cell->findings.lost_text, sizeof cell->findings.lost_text,
                       "in the restore run: %.230s", second->findings.lost_text);
    }
}

ddp_status harness_stage_restore(struct harness_cell *cell, struct harness_restore_result *out,
                                 struct ddp_err *err)
{
    const struct harness_rank_options rank = {.is_hashing = true, .is_restoring = true};
    struct harness_cell second = *cell;
    const char *from = harness_stage_path(cell->mem, cell->run_dir, "checkpoint.safetensors");
    const char *given;
    const char *to;
    ddp_status status;

    if (!cell->plan.restore.is_set && !cell->plan.expect.restore.is_set) {
        return DDP_OK;
    }
    second.run_dir = harness_stage_path(cell->mem, cell->run_dir, "restore");
    to = harness_stage_path(cell->mem, second.run_dir, "checkpoint.safetensors");
    given = harness_stage_path(cell->mem, second.run_dir, "given.safetensors");
    DDP_TRY(harness_stage_make_dirs(&cell->config, second.run_dir, err));
    /* Twice: the run overwrites the file that it loads, and a later check needs what was loaded. */
    status = copy_checkpoint(cell, from, given, err);
    status = status == DDP_OK ? copy_checkpoint(cell, from, to, err) : status;
    if (status != DDP_OK) {
        return ddp_err_wrap(err, status, "restore run of %s", cell->plan.id);
    }
    DDP_TRY(harness_stage_restored(cell, &second));
    memset(&second.trace, 0, sizeof second.trace);
    DDP_TRY(harness_stage_prepare(&second, err));
    DDP_TRY(harness_stage_launch(&second, &rank, err));
    DDP_TRY(harness_stage_check(&second, cell, err));
    DDP_TRY(harness_stage_describe(&second, cell, err));
    out->is_run = true;
    DDP_TRY(harness_stage_conclude(&second, out));
    harness_stage_adopt_gap(cell, &second);
    harness_trace_fini(&second.trace);
    return DDP_OK;
}
