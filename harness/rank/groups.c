/* job.groups: beside the group of all ranks this rank joins those that it is in, as a trainer on
 * the core does with ddp_subgroup_open. All groups of a rank count their collectives together. */
#include <stdio.h>

#include "harness/rank/session.h"

static ddp_status open_one(struct harness_session *session,
                           const struct harness_rank_wiring *wiring,
                           const struct harness_group *group, uint64_t deadline_ns,
                           struct ddp_group *out)
{
    const bool is_strict = session->plan->job.semantics != HARNESS_SEMANTICS_PYTORCH;
    const uint32_t member = harness_group_member(group, session->env->rank);
    char name[HARNESS_GROUP_NAME_BYTES + 16];
    const struct harness_rank_members members = {name, member, group->rank_count, group->ranks};
    struct ddp_transport *transport;
    struct ddp_coll *coll;

    if (member == group->rank_count) {
        return DDP_OK;
    }
    (void)snprintf(name, sizeof name, "group/%s", group->name);
    DDP_TRY(wiring->members(wiring->context, session->env, session->store, &members, deadline_ns,
                            &transport, session->err));
    DDP_TRY(harness_session_open_subgroup(session, group, is_strict, transport, &coll));
    ddp_group_init(out, session->env, coll,
                   is_strict ? DDP_SEMANTICS_STRICT : DDP_SEMANTICS_PYTORCH,
                   session->plan->job.timeout_ns);
    ddp_group_number_by(out, &session->numbers);
    return DDP_OK;
}

ddp_status harness_session_open_groups(struct harness_session *session,
                                       const struct harness_rank_wiring *wiring,
                                       uint64_t deadline_ns)
{
    for (size_t i = 0; i < session->plan->job.groups.count; i++) {
        struct harness_group group;

        DDP_TRY(harness_group_parse(session->plan->job.groups.items[i], &group, session->err));
        DDP_TRY(open_one(session, wiring, &group, deadline_ns, &session->groups[i]));
    }
    return DDP_OK;
}

void harness_session_close_groups(struct harness_session *session)
{
    for (size_t i = 0; i < HARNESS_GROUPS_MAX; i++) {
        if (session->groups[i].coll != NULL) {
            ddp_group_fini(&session->groups[i]);
        }
    }
}
