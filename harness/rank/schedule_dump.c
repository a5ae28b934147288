/* Every schedule that is used is written into the run folder, where the judge reads reduction trees
 * from it: one file a rank, a schedule behind the other. The file is not kept open, since a rank
 * may be killed at any time. What can't be written does not run: nothing could be said of what it
 * did. */
#include "ddpcore/schedule/schedule.h"
#include "harness/rank/session.h"

static ddp_status dump_used(struct ddp_schedule_observer *observer,
                            const struct ddp_schedule *schedule)
{
    struct harness_schedule_dump *dump = (struct harness_schedule_dump *)observer;
    struct ddp_text path, text;

    if (dump->status != DDP_OK) {
        return dump->status; /* the file may end in a part of a schedule: nothing goes behind it */
    }
    ddp_text_init(&path, dump->env->mem);
    ddp_text_init(&text, dump->env->mem);
    ddp_text_add(&path, "%s/schedules/rank%u.txt", dump->run_dir, dump->env->rank);
    ddp_schedule_print(schedule, &text);
    ddp_text_add(&text, "end\n"); /* it is whole */
    dump->status = path.is_failed || text.is_failed
                       ? DDP_E_NOMEM
                       : harness_file_append(dump->env, ddp_text_str(&path), ddp_text_str(&text),
                                             text.size_bytes, NULL);
    ddp_text_fini(&text);
    ddp_text_fini(&path);
    return dump->status;
}

void harness_schedule_dump_init(struct harness_schedule_dump *dump, struct ddp_env *env,
                                const char *run_dir)
{
    dump->observer.used = dump_used;
    dump->env = env;
    dump->run_dir = run_dir;
    dump->status = DDP_OK;
}
