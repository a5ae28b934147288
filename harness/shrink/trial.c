/* A candidate's run. It may take its process down, so it has one of its own. */
#include "harness/shrink/trial.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "harness/cell/cell.h"
#include "harness/grammar/model.h"

enum { TRIAL_SECONDS_MAX = 120 };

static const char *text_of(const json_t *verdict, const char *key)
{
    const char *text = json_string_value(json_object_get(verdict, key));

    return text != NULL ? text : "";
}

static bool is_injected(const struct harness_plan *plan, uint32_t rank)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        if (plan->faults[i].at.rank == rank && plan->faults[i].action.kind != HARNESS_ACTION_NONE) {
            return true;
        }
    }
    return false;
}

static void read_culprits(const struct harness_plan *plan, const json_t *list,
                          struct harness_shrink_trial *out)
{
    size_t injected = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        uint32_t rank = (uint32_t)json_integer_value(json_array_get(list, i));

        injected += is_injected(plan, rank);
        if (out->culprit_count < sizeof out->culprits / sizeof out->culprits[0]) {
            out->culprits[out->culprit_count++] = rank;
        }
    }
    out->signature.is_one = json_array_size(list) == 1;
    out->signature.named = json_array_size(list) == 0          ? HARNESS_SHRINK_NOBODY
                           : injected == 0                     ? HARNESS_SHRINK_INNOCENT
                           : injected == json_array_size(list) ? HARNESS_SHRINK_INJECTED
                                                               : HARNESS_SHRINK_BOTH;
}

static void read_op(const json_t *op, struct harness_shrink_trial *out)
{
    const char *role = text_of(op, "role");
    const json_t *bucket = json_object_get(op, "bucket");

    out->signature.has_op = role[0] != '\0';
    for (uint32_t i = 0; i < DDP_ROLE_COUNT; i++) {
        if (strcmp(ddp_coll_role_name((enum ddp_coll_role)i), role) == 0) {
            out->signature.op_role = i;
        }
    }
    out->has_bucket = json_is_integer(bucket);
    out->bucket = out->has_bucket ? json_integer_value(bucket) : -1;
}

static void read_also(const json_t *verdict, struct harness_shrink_trial *out)
{
    const json_t *index = json_object_get(verdict, "unexpected");
    const json_t *finding = json_is_integer(index)
                                ? json_array_get(json_object_get(verdict, "findings"),
                                                 (size_t)json_integer_value(index))
                                : NULL;

    if (finding != NULL) {
        (void)!harness_verdict_parse(text_of(finding, "verdict"), &out->signature.also);
        (void)!harness_oracle_parse(text_of(finding, "oracle"), &out->signature.also_oracle);
    }
}

static void read_fired(const json_t *list, struct harness_shrink_trial *out)
{
    for (size_t i = 0; i < json_array_size(list) && i < 64; i++) {
        const bool is_unfired =
            json_integer_value(json_object_get(json_array_get(list, i), "times")) == 0;

        out->unfired |= (uint64_t)is_unfired << i;
        out->unfired_count += is_unfired;
    }
}

/* Without a model, what was found is not right or wrong; it is there, or not, whatever else is. */
static void forget_others(struct harness_shrink_trial *out)
{
    out->signature.also = HARNESS_VERDICT_NONE;
    out->signature.also_oracle = (enum harness_oracle_id)0;
    if (out->signature.outcome == HARNESS_OUTCOME_PASS) {
        out->signature.outcome = HARNESS_OUTCOME_FAIL;
    }
}

static void read_verdict(const struct harness_plan *plan, const json_t *verdict,
                         struct harness_shrink_trial *out)
{
    const json_t *step = json_object_get(verdict, "step");

    (void)!harness_outcome_parse(text_of(verdict, "outcome"), &out->signature.outcome);
    (void)!harness_verdict_parse(text_of(verdict, "verdict"), &out->signature.verdict);
    (void)!harness_oracle_parse(text_of(verdict, "oracle"), &out->signature.oracle);
    out->step = json_is_integer(step) ? json_integer_value(step) : -1;
    read_culprits(plan, json_object_get(verdict, "culprit"), out);
    /* A crash's operation is only the last one that its rank came to. */
    if (harness_verdict_family(out->signature.verdict) != HARNESS_FAMILY_CRASH) {
        read_op(json_object_get(verdict, "op"), out);
    }
    read_also(verdict, out);
    read_fired(json_object_get(verdict, "fired"), out);
    out->is_passed = out->signature.outcome == HARNESS_OUTCOME_PASS;
    out->has_unexpected = json_is_integer(json_object_get(verdict, "unexpected"));
    if (out->signature.verdict == HARNESS_VERDICT_NONE) {
        (void)!harness_verdict_parse(text_of(json_object_get(verdict, "restore"), "verdict"),
                                     &out->signature.restored);
    }
}

static ddp_status run(const struct harness_plan *plan, const struct harness_shrink_config *config,
                      bool is_modelled, struct harness_shrink_trial *out)
{
    struct harness_cell_config cell = {.driver = config->driver,
                                       .seed = config->seed,
                                       .run_dir = config->work_dir,
                                       .self_path = config->self_path};
    struct harness_plan judged = *plan;
    struct ddp_files_memory *memory = NULL;
    struct harness_model model;
    struct ddp_mem_pool *pool;
    struct ddp_err err = {{0}};
    json_t *verdict = NULL;
    ddp_status status;

    DDP_TRY(ddp_mem_pool_create(&pool));
    memset(&judged.canary, 0, sizeof judged.canary); /* it turns the answer round */
    if (is_modelled) {
        DDP_TRY(harness_model_of(plan, ddp_mem_pool_mem(pool), &model, &err));
        judged.expect = model.accepted[0];
        cell.alternatives = model.accepted + 1;
        cell.alternative_count = model.accepted_count - 1;
    }
    if (config->driver == HARNESS_DRIVER_SIM) {
        DDP_TRY(ddp_files_memory_create(&memory));
        cell.memory = memory;
        cell.run_dir = "run";
    }
    status = harness_cell_run(&judged, &cell, &verdict, &err);
    if (verdict != NULL) {
        read_verdict(plan, verdict, out);
        if (!is_modelled) {
            forget_others(out);
        }
        status = DDP_OK;
    }
    json_decref(verdict);
    ddp_files_memory_destroy(memory);
    ddp_mem_pool_destroy(pool);
    return status;
}

/* What the process says, in one write. */
struct message {
    ddp_status status;
    struct harness_shrink_trial trial;
};

static void child(const struct harness_plan *plan, const struct harness_shrink_config *config,
                  bool is_modelled, int fd)
{
    struct message message;

    memset(&message, 0, sizeof message);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(TRIAL_SECONDS_MAX);
    message.status = run(plan, config, is_modelled, &message.trial);
    _exit(write(fd, &message, sizeof message) == (ssize_t)sizeof message ? 0 : 3);
}

ddp_status harness_shrink_try(const struct harness_plan *plan,
                              const struct harness_shrink_config *config, bool is_modelled,
                              struct harness_shrink_trial *out, struct ddp_err *err)
{
    struct message message;
    int wait_status = 0;
    int fds[2];
    ssize_t size;
    pid_t pid;

    memset(out, 0, sizeof *out);
    if (pipe(fds) != 0) {
        return ddp_err_set(err, DDP_E_IO, "no pipe for a run: %s", strerror(errno));
    }
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        child(plan, config, is_modelled, fds[1]);
    }
    (void)close(fds[1]);
    size = pid > 0 ? read(fds[0], &message, sizeof message) : -1;
    (void)close(fds[0]);
    if (pid < 0 || waitpid(pid, &wait_status, 0) != pid) {
        return ddp_err_set(err, DDP_E_IO, "cannot fork: %s", strerror(errno));
    }
    (void)!ddp_files_remove_tree(config->work_dir, NULL);
    if (WIFSIGNALED(wait_status)) {
        out->signature.outcome = HARNESS_OUTCOME_ERROR;
        out->signature.death_signal = WTERMSIG(wait_status);
        return DDP_OK;
    }
    if (size != (ssize_t)sizeof message) {
        return ddp_err_set(err, DDP_E_IO, "a run left no answer");
    }
    *out = message.trial;
    return message.status;
}

bool harness_shrink_is_same(const struct harness_shrink_signature *a,
                            const struct harness_shrink_signature *b)
{
    return a->outcome == b->outcome && a->verdict == b->verdict && a->oracle == b->oracle &&
           a->named == b->named && a->is_one == b->is_one && a->has_op == b->has_op &&
           a->op_role == b->op_role && a->also == b->also && a->also_oracle == b->also_oracle &&
           a->restored == b->restored && a->death_signal == b->death_signal;
}
