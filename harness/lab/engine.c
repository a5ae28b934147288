/* What makes the collectives of a rank: the kind that was asked for. */
#include "harness/lab/engine.h"

ddp_status harness_lab_engine_open(struct harness_lab_shared *shared, uint32_t rank,
                                   uint32_t number, struct harness_lab_engine **out,
                                   struct ddp_err *err)
{
    struct harness_lab_engine base = {.shared = shared, .number = number, .err = err};
    ddp_status status = DDP_E_INVALID;

    ddp_env_init_process(&base.env, &base.idle, rank, shared->request.ranks);
    switch (shared->request.engine) {
    case HARNESS_LAB_SCHEDULE:
        status = harness_lab_schedule_open(&base, out);
        break;
    case HARNESS_LAB_OPAQUE:
        status = harness_lab_opaque_open(&base, out);
        break;
    case HARNESS_LAB_ZERO_COPY:
    case HARNESS_LAB_COPY:
        status = harness_lab_yardstick_open(&base, out);
        break;
    case HARNESS_LAB_ENGINE_COUNT:
        break;
    }
    return status;
}
