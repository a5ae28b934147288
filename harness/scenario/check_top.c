/* What the keys of a whole scenario mean together. */
#include <string.h>

#include "harness/plan/group.h"
#include "harness/plan/posted.h"
#include "harness/scenario/reader.h"

/* The folder lies in one called "scenarios". */
static bool is_in_scenarios(const char *path, const char *folder)
{
    static const char parent[] = "scenarios/";
    size_t size = sizeof(parent) - 1;
    size_t before = (size_t)(folder - path);

    return before >= size && strncmp(folder - size, parent, size) == 0 &&
           (before == size || folder[-(ptrdiff_t)size - 1] == '/');
}

/* An id names the folder of its runs, so it must not lead out of it, and tests by it. */
static ddp_status check_id_letters(const struct harness_reader *reader,
                                   const struct harness_yaml_node *node)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_-.";
    size_t size = strlen(node->text);

    if (size == 0 || size > 200 || node->text[0] == '.' || node->text[0] == '-' ||
        strspn(node->text, letters) != size) {
        return harness_yaml_fail(
            node, reader->err, DDP_E_INVALID,
            "id \"%.100s\" must be 1 to 200 letters, digits, _ - and dots, and "
            "begin with a letter, a digit or _",
            node->text);
    }
    return DDP_OK;
}

/* id against the file's place: scenarios/crash/x.yaml holds crash.x. Elsewhere a file may be called
 * anything, as a plan.yaml in a run folder is. */
static ddp_status check_id(const struct harness_reader *reader,
                           const struct harness_yaml_node *node)
{
    const char *name = strrchr(reader->path, '/');
    const char *folder = name;
    const char *dot;
    struct ddp_text expected;
    ddp_status status = DDP_OK;

    if (name == NULL) {
        return DDP_OK;
    }
    while (folder > reader->path && folder[-1] != '/') {
        folder--;
    }
    dot = strrchr(name, '.');
    dot = dot == NULL ? name + strlen(name) : dot;
    if (!is_in_scenarios(reader->path, folder)) {
        return DDP_OK;
    }
    ddp_text_init(&expected, reader->scratch);
    ddp_text_add_bytes(&expected, folder, (size_t)(name - folder));
    ddp_text_add(&expected, ".");
    ddp_text_add_bytes(&expected, name + 1, (size_t)(dot - name - 1));
    if (strcmp(node->text, ddp_text_str(&expected)) != 0) {
        status = harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                   "id is \"%.100s\", but a file in this place is \"%.100s\"",
                                   node->text, ddp_text_str(&expected));
    }
    ddp_text_fini(&expected);
    return status;
}

/* covers: rows of the fault catalog. */
static ddp_status check_covers(const struct harness_reader *reader,
                               const struct harness_yaml_node *list)
{
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        size_t row;

        if (!harness_fault_row_find(list->items[i]->text, &row)) {
            return harness_yaml_fail(list->items[i], reader->err, DDP_E_INVALID,
                                     "\"%.60s\" is no row of the fault catalog; see: ddprove list "
                                     "faults",
                                     list->items[i]->text);
        }
    }
    return DDP_OK;
}

static ddp_status check_drivers(const struct harness_reader *reader,
                                const struct harness_yaml_node *list,
                                const struct harness_plan *plan)
{
    for (unsigned i = 0; i < HARNESS_DRIVER_COUNT; i++) {
        if (plan->is_driver[i]) {
            return DDP_OK;
        }
    }
    return harness_yaml_fail(list, reader->err, DDP_E_INVALID,
                             "drivers names none; remove it to run on all");
}

/* A larger world has ranks that no list of the job names. */
static ddp_status check_restore_ranks(const struct harness_reader *reader,
                                      const struct harness_yaml_node *map,
                                      const struct harness_plan *plan)
{
    const struct harness_job *job = &plan->job;
    bool is_alike = job->shard_sizes == NULL;

    for (uint32_t rank = 1; rank < job->ranks; rank++) {
        is_alike = is_alike && job->batch_per_rank[rank] == job->batch_per_rank[0];
    }
    if (plan->restore.ranks <= job->ranks || is_alike) {
        return DDP_OK;
    }
    return harness_yaml_fail(
        harness_reader_node(map, HARNESS_ROW_RESTORE_ranks), reader->err, DDP_E_INVALID,
        "a restore run of %u ranks: job.%s lists %u; at most %u can restore", plan->restore.ranks,
        job->shard_sizes != NULL ? "shard_sizes" : "batch_per_rank", job->ranks, job->ranks);
}

/* The restore run has the same groups: their ranks must be there. */
static ddp_status check_restore_groups(const struct harness_reader *reader,
                                       const struct harness_yaml_node *map,
                                       const struct harness_plan *plan)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_RESTORE_ranks);

    for (size_t i = 0; plan->restore.ranks > 0 && i < plan->job.groups.count; i++) {
        struct harness_group group;
        uint32_t last;

        DDP_TRY(harness_group_parse(plan->job.groups.items[i], &group, reader->err));
        last = group.ranks[group.rank_count - 1];
        if (last >= plan->restore.ranks) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                     "a restore run of %u ranks has no rank %u, which is in group "
                                     "%s: leave ranks out, or restore %u or more",
                                     plan->restore.ranks, last, group.name, last + 1);
        }
    }
    return DDP_OK;
}

/* The restore run posts the same collectives: their roots must be there. */
static ddp_status check_restore_posts(const struct harness_reader *reader,
                                      const struct harness_yaml_node *map,
                                      const struct harness_plan *plan)
{
    DDP_TRY(check_restore_groups(reader, map, plan));
    for (size_t i = 0; plan->restore.ranks > 0 && i < plan->job.posts.count; i++) {
        struct harness_posted posted;
        struct ddp_err err;

        DDP_TRY(harness_posted_parse(plan->job.posts.items[i], &posted, &err));
        if (posted.root >= plan->restore.ranks) {
            return harness_yaml_fail(
                harness_reader_node(map, HARNESS_ROW_RESTORE_ranks), reader->err, DDP_E_INVALID,
                "a restore run of %u ranks has no rank %u, the root of job.posts, entry %zu",
                plan->restore.ranks, posted.root, i);
        }
    }
    return DDP_OK;
}

/* A fault that waits for another one: there is one, and not itself. */
static ddp_status check_until(const struct harness_reader *reader,
                              const struct harness_yaml_node *top, const struct harness_plan *plan)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        const struct harness_action *action = &plan->faults[i].action;

        if (action->kind == HARNESS_ACTION_UNTIL &&
            (action->until_fault >= plan->fault_count || action->until_fault == i)) {
            return harness_yaml_fail(harness_reader_node(top, HARNESS_ROW_TOP_faults), reader->err,
                                     DDP_E_INVALID,
                                     "faults.%u waits until fault %llu has acted: there is "
                                     "no other one of that number, from 0",
                                     i, (unsigned long long)action->until_fault);
        }
    }
    return DDP_OK;
}

static ddp_status check_restore_faults(const struct harness_reader *reader,
                                       const struct harness_yaml_node *top,
                                       const struct harness_plan *plan)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        if (harness_plan_run_of(&plan->faults[i]) == HARNESS_RUN_RESTORE) {
            return harness_yaml_fail(harness_reader_node(top, HARNESS_ROW_TOP_faults), reader->err,
                                     DDP_E_INVALID,
                                     "faults.%u is of the restore run, and there is none; set "
                                     "restore: {}",
                                     i);
        }
    }
    return DDP_OK;
}

/* A restore that is expected takes place, with defaults if nothing is said about it. */
static ddp_status check_restore(const struct harness_reader *reader,
                                const struct harness_yaml_node *top, struct harness_plan *plan)
{
    const struct harness_yaml_node *map = harness_reader_node(top, HARNESS_ROW_TOP_restore);
    const struct harness_yaml_node *expected = harness_reader_node(
        harness_reader_node(top, HARNESS_ROW_TOP_expect), HARNESS_ROW_EXPECT_restore);

    plan->restore.is_set = map != NULL || expected != NULL;
    if (!plan->restore.is_set) {
        return check_restore_faults(reader, top, plan);
    }
    if (plan->job.checkpoint_every > 0) {
        DDP_TRY(check_restore_posts(reader, map, plan));
        return check_restore_ranks(reader, map, plan);
    }
    return harness_yaml_fail(map != NULL ? map : expected, reader->err, DDP_E_INVALID,
                             "there is no checkpoint to restore; set job.checkpoint_every");
}

ddp_status harness_scenario_check_top(const struct harness_reader *reader,
                                      const struct harness_yaml_node *map, void *kept)
{
    DDP_TRY(check_id_letters(reader, harness_reader_node(map, HARNESS_ROW_TOP_id)));
    DDP_TRY(check_id(reader, harness_reader_node(map, HARNESS_ROW_TOP_id)));
    DDP_TRY(check_covers(reader, harness_reader_node(map, HARNESS_ROW_TOP_covers)));
    DDP_TRY(check_drivers(reader, harness_reader_node(map, HARNESS_ROW_TOP_drivers), kept));
    DDP_TRY(check_until(reader, map, kept));
    if (harness_plan_is_guest(kept)) {
        return harness_scenario_check_guest_top(reader, map, kept);
    }
    DDP_TRY(harness_scenario_check_waits(reader, map, kept));
    return check_restore(reader, map, kept);
}
