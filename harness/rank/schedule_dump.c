/* Every schedule that is used is written into the run folder, where the judge reads reduction trees
 * from it. What can't be written does not run: nothing could be said of what it did. */
#include "ddpcore/schedule/schedule.h"
#include "harness/rank/session.h"

static ddp_status dump_used(struct ddp_schedule_observer *observer,
                            const struct ddp_schedule *schedule)
{
    struct harness_schedule_dump *dump = (struct harness_schedule_dump *)observer;
    const struct ddp_schedule_params *params = &schedule->params;
    struct ddp_text path, text;
    ddp_status status;

    ddp_text_init(&path, dump->env->mem);
    ddp_text_init(&text, dump->env->mem);
    ddp_text_add(&path, "%s/schedules/%s.%s.n%zu.%s.root%u.r%u.txt", dump->run_dir,
                 ddp_coll_kind_name(params->kind), schedule->algorithm, params->elem_count,
                 ddp_dtype_name(params->dtype), params->root, dump->env->rank);
    ddp_schedule_print(schedule, &text);
    if (path.is_failed || text.is_failed) {
        status = DDP_E_NOMEM;
    } else {
        status = harness_file_write(dump->env, ddp_text_str(&path), ddp_text_str(&text),
                                    text.size_bytes, NULL);
    }
    ddp_text_fini(&text);
    ddp_text_fini(&path);
    if (status != DDP_OK) {
        dump->status = status;
    }
    return status;
}

void harness_schedule_dump_init(struct harness_schedule_dump *dump, struct ddp_env *env,
                                const char *run_dir)
{
    dump->observer.used = dump_used;
    dump->env = env;
    dump->run_dir = run_dir;
    dump->status = DDP_OK;
}
