/* Purpose: who takes part in a collective. */
#include "harness/emulation/emulation.h"

static struct harness_members members_of(const struct harness_emulation *e,
                                         const struct harness_group *group, uint32_t rank)
{
    return group == NULL ? (struct harness_members){NULL, e->world, rank}
                         : (struct harness_members){group, group->rank_count,
                                                    harness_group_member(group, rank)};
}

struct harness_members harness_emulation_members(const struct harness_emulation *e, uint32_t rank,
                                                 uint64_t seq)
{
    const struct harness_trace_event *post =
        harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, seq);

    return members_of(
        e, post != NULL ? harness_program_group_of(e->input->program, post->entry.arg[3]) : NULL,
        rank);
}

struct harness_members harness_emulation_planned(const struct harness_emulation *e,
                                                 const struct harness_op *op)
{
    return members_of(e, harness_program_group(e->input->program, op), 0);
}

/* What is monitored tells the others by itself who came, so that it is another schedule than that
 * of a barrier, of the same kind and count. */
static const char *algorithm_of(const struct ddp_event_op *op)
{
    return op->kind != DDP_COLL_BARRIER     ? NULL
           : op->role == DDP_ROLE_MONITORED ? "direct_barrier"
                                            : "dissemination_barrier";
}

struct harness_schedule_set *harness_emulation_schedules(const struct harness_emulation *e,
                                                         uint32_t rank, const uint64_t *arg)
{
    const struct ddp_event_op op = ddp_event_op_unpack(arg[1]);

    return harness_schedules_find(&e->schedules, harness_emulation_members(e, rank, arg[0]).size,
                                  op.kind, algorithm_of(&op), arg[2], op.dtype, op.root);
}

uint32_t harness_members_rank(const struct harness_members *members, uint32_t member)
{
    DDP_ASSERT(member < members->size);
    return members->group != NULL ? members->group->ranks[member] : member;
}
