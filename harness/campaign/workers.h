/* Processes that run cases: a case that takes its process down costs that case alone. Internal to
 * harness/campaign. */
#ifndef HARNESS_CAMPAIGN_WORKERS_H
#define HARNESS_CAMPAIGN_WORKERS_H

#include "harness/campaign/lines.h"

/* One case on one driver. */
struct harness_campaign_task {
    uint64_t number;
    enum harness_driver driver;
};

/* Run the tasks, handing each answer to `take` as it comes, in any order, until one fails, the
 * budget is over or a signal asks to end (*out_signal). Errors: take's, E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_campaign_work(
    const struct harness_campaign_config *config, const struct harness_campaign_task *tasks,
    size_t task_count,
    ddp_status (*take)(void *context, const struct harness_campaign_result *result,
                       struct ddp_err *err),
    void *context, int *out_signal, struct ddp_err *err);

#endif
