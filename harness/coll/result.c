/* Names of properties and states; what a report comes to. */
#include "harness/coll/cases.h"

const char *harness_coll_property_name(enum harness_coll_property property)
{
    static const char *const names[] = {
#define X(id, name, meaning) name,
        HARNESS_COLL_PROPERTY_TABLE(X)
#undef X
    };

    DDP_ASSERT(property < HARNESS_COLL_PROPERTY_COUNT);
    return names[property];
}

const char *harness_coll_property_meaning(enum harness_coll_property property)
{
    static const char *const meanings[] = {
#define X(id, name, meaning) meaning,
        HARNESS_COLL_PROPERTY_TABLE(X)
#undef X
    };

    DDP_ASSERT(property < HARNESS_COLL_PROPERTY_COUNT);
    return meanings[property];
}

const char *harness_coll_state_name(enum harness_coll_state state)
{
    static const char *const names[] = {
#define X(id, name) name,
        HARNESS_COLL_STATE_TABLE(X)
#undef X
    };

    DDP_ASSERT(state < HARNESS_COLL_STATE_COUNT);
    return names[state];
}

enum ddp_dtype harness_coll_type(size_t index)
{
    static const enum ddp_dtype types[HARNESS_COLL_TYPES] = {DDP_DTYPE_F32, DDP_DTYPE_BF16,
                                                             DDP_DTYPE_F16};

    DDP_ASSERT(index < HARNESS_COLL_TYPES);
    return types[index];
}

enum harness_outcome harness_coll_outcome(const struct harness_coll_report *report)
{
    bool is_judged = !report->is_stopped && report->case_count > 0;

    for (int p = 0; p < HARNESS_COLL_PROPERTY_COUNT; p++) {
        if (report->result[p].state == HARNESS_COLL_FAIL) {
            return HARNESS_OUTCOME_FAIL;
        }
        is_judged = is_judged && (report->result[p].state != HARNESS_COLL_NOT_JUDGED ||
                                  !harness_coll_is_asked(report, (enum harness_coll_property)p));
    }
    return is_judged ? HARNESS_OUTCOME_PASS : HARNESS_OUTCOME_INCONCLUSIVE;
}

bool harness_coll_is_asked(const struct harness_coll_report *report,
                           enum harness_coll_property property)
{
    enum ddp_coll_kind kind = report->kind;
    bool is_for_all = kind == DDP_COLL_ALL_REDUCE || kind == DDP_COLL_BROADCAST ||
                      kind == DDP_COLL_ALL_GATHER; /* each rank gets the same */
    bool is_of_small = property == HARNESS_COLL_PURE || property == HARNESS_COLL_FREED;

    if (property == HARNESS_COLL_FREED && !report->is_measured) {
        return false;
    }
    if (property == HARNESS_COLL_SAME_BITS && !is_for_all) {
        return false;
    }
    if (property == HARNESS_COLL_SAME_ORDER && !ddp_coll_kind_is_sum(kind)) {
        return false;
    }
    return !(is_of_small && report->worlds.first > HARNESS_COLL_REPEATED_MAX);
}

void harness_coll_print_case(const struct harness_coll_case *test, const uint32_t *nodes,
                             struct ddp_text *out)
{
    ddp_text_add(out, "%u rank%s, %zu element%s, %s", test->world, test->world == 1 ? "" : "s",
                 test->elem_count, test->elem_count == 1 ? "" : "s",
                 test->is_in_place ? "in place" : "input and output apart");
    if (test->dtype != DDP_DTYPE_F32) {
        ddp_text_add(out, ", %s", ddp_dtype_name(test->dtype));
    }
    if (test->segment_elem_count > 0) {
        ddp_text_add(out, ", messages of at most %zu", test->segment_elem_count);
    }
    if (test->root > 0) {
        ddp_text_add(out, ", root rank %u", test->root);
    }
    for (uint32_t r = 0; nodes != NULL && r < test->world && r < HARNESS_COLL_NODES_MAX; r++) {
        ddp_text_add(out, "%s%u", r == 0 ? ", on nodes " : " ", nodes[r]);
    }
}
