/* Tables of the seam, fault points, and the process environment. */
#include <ctype.h>
#include <string.h>

#include "ddpcore/seam/env.h"
#include "tests/ct.h"

/* Phases, points, events, collective kinds and roles: every name parses back to its number. */
CT_TEST(seam, names_round_trip)
{
    enum ddp_phase phase;
    enum ddp_fault_point point;
    enum ddp_event event;
    enum ddp_coll_kind kind;
    enum ddp_coll_role role;

    for (unsigned i = 0; i < DDP_PHASE_COUNT; i++) {
        CT_CHECK_OK(ddp_phase_parse(ddp_phase_name((enum ddp_phase)i), &phase));
        CT_CHECK_EQ_U64(phase, i);
        CT_CHECK(ddp_phase_budget_ms(phase) > 0);
    }
    for (unsigned i = 0; i < DDP_FAULT_POINT_COUNT; i++) {
        CT_CHECK_OK(ddp_fault_point_parse(ddp_fault_point_name((enum ddp_fault_point)i), &point));
        CT_CHECK_EQ_U64(point, i);
        CT_CHECK(strlen(ddp_fault_point_description(point)) > 0);
    }
    for (unsigned i = 0; i < DDP_EVENT_COUNT; i++) {
        CT_CHECK_OK(ddp_event_parse(ddp_event_name((enum ddp_event)i), &event));
        CT_CHECK_EQ_U64(event, i);
    }
    for (unsigned i = 0; i < DDP_COLL_KIND_COUNT; i++) {
        CT_CHECK_OK(ddp_coll_kind_parse(ddp_coll_kind_name((enum ddp_coll_kind)i), &kind));
        CT_CHECK_EQ_U64(kind, i);
    }
    for (unsigned i = 0; i < DDP_ROLE_COUNT; i++) {
        CT_CHECK_OK(ddp_coll_role_parse(ddp_coll_role_name((enum ddp_coll_role)i), &role));
        CT_CHECK_EQ_U64(role, i);
    }
    CT_CHECK_STATUS(ddp_phase_parse("lunch", &phase), DDP_E_NOT_FOUND);
    CT_CHECK_STATUS(ddp_event_parse("lunch", &event), DDP_E_NOT_FOUND);
}

/* An event's name says what its identifier says. */
CT_TEST(seam, event_names_are_their_identifiers)
{
    static const char *const identifiers[DDP_EVENT_COUNT] = {
#define X(id, name, a0, a1, a2, a3, a4) [DDP_EVENT_##id] = #id,
#include "ddpcore/seam/event.def"
#undef X
    };

    for (unsigned i = 0; i < DDP_EVENT_COUNT; i++) {
        char name[64] = "";

        for (size_t k = 0; identifiers[i][k] != '\0' && k + 1 < sizeof name; k++) {
            const char c = identifiers[i][k];

            name[k] = c == '_' ? '.' : (char)tolower(c);
        }
        CT_CHECK_STR(ddp_event_name((enum ddp_event)i), name);
    }
}

/* Every event argument carries a known prefix, and unused ones come last. */
CT_TEST(seam, event_arguments_are_described)
{
    for (unsigned i = 0; i < DDP_EVENT_COUNT; i++) {
        bool is_over = false;

        for (unsigned k = 0; k < 5; k++) {
            const char *arg = ddp_event_arg((enum ddp_event)i, k);

            CT_CHECK(!is_over || arg[0] == '\0');
            is_over = arg[0] == '\0';
            CT_CHECK(is_over || strncmp(arg, "op:", 3) == 0 || strncmp(arg, "access:", 7) == 0 ||
                     strncmp(arg, "kind:", 5) == 0 ||
                     (strchr("uxispbhw", arg[0]) != NULL && arg[1] == ':'));
        }
    }
    CT_CHECK_STR(ddp_event_arg(DDP_EVENT_COLL_POST, 0), "u:seq");
    CT_CHECK_STR(ddp_event_arg(DDP_EVENT_COLL_POST, 5), "");
}

/* A packed operation unpacks to itself at the limits of every field; what lies beyond them is shown
 * as the limit, not as another valid value. */
CT_TEST(seam, operations_pack)
{
    struct ddp_event_op op = {DDP_COLL_BARRIER, DDP_REDOP_PROD, DDP_DTYPE_U8,
                              DDP_ROLE_PROBE,   0xffffff,       0x3fffff};
    struct ddp_event_op back = ddp_event_op_unpack(ddp_event_op_pack(&op));

    CT_CHECK(back.kind == op.kind && back.redop == op.redop && back.dtype == op.dtype);
    CT_CHECK(back.role == op.role && back.index == op.index && back.root == op.root);
    op = (struct ddp_event_op){.kind = DDP_COLL_BROADCAST, .root = 256, .index = UINT32_MAX};
    back = ddp_event_op_unpack(ddp_event_op_pack(&op));
    CT_CHECK(back.kind == DDP_COLL_BROADCAST && back.root == 256 && back.index == 0xffffff);
    op = (struct ddp_event_op){.kind = (enum ddp_coll_kind)99, .root = UINT32_MAX};
    back = ddp_event_op_unpack(ddp_event_op_pack(&op));
    CT_CHECK_STR(ddp_coll_kind_name(back.kind), "unknown");
    CT_CHECK(back.root == 0x3fffff && back.index == 0 && back.dtype == DDP_DTYPE_F32);
}

struct counting_hook {
    struct ddp_fault_hook base;
    int fired_count;
    enum ddp_fault_point last;
};

static enum ddp_fault_action count_fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                        struct ddp_fault_context *context)
{
    struct counting_hook *self = (struct counting_hook *)hook;

    CT_CHECK_EQ_I64(context->bucket, -1);
    self->fired_count++;
    self->last = point;
    return DDP_FAULT_SKIP;
}

/* Only an armed point calls the hook, and its answer comes back. */
CT_TEST(seam, only_armed_points_fire)
{
    struct counting_hook hook = {{0, count_fire}, 0, DDP_FAULT_POINT_LOSS};

    CT_CHECK_EQ_I64(ddp_fault_point_plain(NULL, DDP_FAULT_POINT_LOSS), DDP_FAULT_GO);
    CT_CHECK_EQ_I64(ddp_fault_point_plain(&hook.base, DDP_FAULT_POINT_LOSS), DDP_FAULT_GO);
    hook.base.armed = UINT64_C(1) << DDP_FAULT_POINT_TEARDOWN;
    for (unsigned i = 0; i < DDP_FAULT_POINT_COUNT; i++) {
        enum ddp_fault_action expected =
            i == DDP_FAULT_POINT_TEARDOWN ? DDP_FAULT_SKIP : DDP_FAULT_GO;

        CT_CHECK_EQ_I64(ddp_fault_point_plain(&hook.base, (enum ddp_fault_point)i), expected);
    }
    CT_CHECK_EQ_I64(hook.fired_count, 1);
    CT_CHECK_EQ_I64(hook.last, DDP_FAULT_POINT_TEARDOWN);
}

/* A process environment has every service, records nothing, fires nothing, and spins only when
 * the ranks fit the processors. */
CT_TEST(seam, process_environment)
{
    struct ddp_idle_process idle;
    struct ddp_env env;

    ddp_env_init_process(&env, &idle, 1, 1000000);
    CT_CHECK_EQ_U64(env.rank, 1);
    CT_CHECK_EQ_U64(env.world_size, 1000000);
    CT_CHECK(env.mem == ddp_mem_system() && env.clock == ddp_clock_monotonic());
    CT_CHECK(env.files == ddp_files_system() && env.idle == &idle.base);
    CT_CHECK(env.recorder == NULL && env.faults == NULL);
    CT_CHECK(!idle.may_spin);
    ddp_env_init_process(&env, &idle, 0, 1);
    CT_CHECK(idle.may_spin);
}
