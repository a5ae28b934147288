/* Purpose: the schedules of a plug-in as the judge reads them.
 * Idea: what was emitted is printed as it is; the judge's reader is who refuses it. */
#include "harness/coll/coll.h"
#include "harness/plugin/plugin.h"

struct plugin_source {
    struct harness_coll_source base;
    struct harness_plugin *plugin;
};

_Static_assert((int)DDPROVE_COLL_SEND == (int)HARNESS_STEP_SEND &&
                   (int)DDPROVE_COLL_RECV == (int)HARNESS_STEP_RECV &&
                   (int)DDPROVE_COLL_RECV_REDUCE == (int)HARNESS_STEP_RECV_REDUCE &&
                   (int)DDPROVE_COLL_REDUCE == (int)HARNESS_STEP_REDUCE &&
                   (int)DDPROVE_COLL_COPY == (int)HARNESS_STEP_COPY &&
                   (int)DDPROVE_COLL_CONVERT == (int)HARNESS_STEP_CONVERT,
               "steps have the same numbers");
_Static_assert((int)DDPROVE_COLL_F32 == (int)DDP_DTYPE_F32 + 1 &&
                   (int)DDPROVE_COLL_U8 == (int)DDP_DTYPE_U8 + 1 &&
                   (int)DDPROVE_COLL_U8 == (int)DDP_DTYPE_COUNT,
               "types have the same order");
_Static_assert(DDPROVE_COLL_SAME_BITS == (unsigned)HARNESS_COLL_CLAIM_RANKS &&
                   DDPROVE_COLL_SAME_ORDER == (unsigned)HARNESS_COLL_CLAIM_ORDER,
               "claims have the same bits");
_Static_assert((int)DDPROVE_COLL_ALL_REDUCE == (int)DDP_COLL_ALL_REDUCE &&
                   (int)DDPROVE_COLL_BARRIER == (int)DDP_COLL_BARRIER &&
                   (int)DDPROVE_COLL_REDUCE_SCATTER == (int)DDP_COLL_REDUCE_SCATTER &&
                   (int)DDPROVE_COLL_REDUCE_TO_ROOT == (int)DDP_COLL_REDUCE &&
                   (int)DDPROVE_COLL_ALL_TO_ALL == (int)DDP_COLL_ALL_TO_ALL &&
                   (int)HARNESS_PLUGIN_KINDS == (int)DDP_COLL_KIND_COUNT,
               "kinds have the same numbers");

static void print_range(const char *key, const struct ddprove_coll_range *range,
                        struct ddp_text *out)
{
    ddp_text_add_str(out, key, 0);
    if (range->buffer == DDPROVE_COLL_INPUT || range->buffer == DDPROVE_COLL_OUTPUT) {
        ddp_text_add_str(out, range->buffer == DDPROVE_COLL_INPUT ? "in" : "out", 0);
    } else {
        ddp_text_add_str(out, "s", 0);
        ddp_text_add_u64(out, range->buffer - DDPROVE_COLL_SCRATCH, 0);
    }
    ddp_text_add_str(out, ":", 0);
    ddp_text_add_u64(out, range->first, 0);
    ddp_text_add_str(out, "+", 0);
    ddp_text_add_u64(out, range->count, 0);
}

static ddp_status print_step(size_t index, const struct ddprove_coll_step *step,
                             struct ddp_text *out, struct ddp_err *err)
{
    bool is_sent = step->kind == DDPROVE_COLL_SEND;
    bool is_taken = step->kind == DDPROVE_COLL_RECV || step->kind == DDPROVE_COLL_RECV_REDUCE;
    bool is_first = true;

    if (step->kind >= HARNESS_STEP_KIND_COUNT) {
        return ddp_err_set(err, DDP_E_INVALID, "step %zu: kind %u is not known", index, step->kind);
    }
    ddp_text_add_u64(out, index, 0);
    ddp_text_add_str(out, " round=", 0);
    ddp_text_add_u64(out, step->round, 0);
    ddp_text_add_str(out, " ", 0);
    ddp_text_add_str(out, harness_step_name((enum harness_step_kind)step->kind), 0);
    if (is_sent || is_taken) {
        ddp_text_add_str(out, " peer=", 0);
        ddp_text_add_u64(out, step->peer, 0);
    }
    if (!is_sent) {
        print_range(" dst=", &step->dst, out);
    }
    if (!is_taken) {
        print_range(" src=", &step->src, out);
    }
    ddp_text_add_str(out, " deps=", 0);
    for (int d = 0; d < DDPROVE_COLL_DEPS; d++) {
        if (step->dep[d] != DDPROVE_COLL_NONE) {
            ddp_text_add_str(out, is_first ? "" : ",", 0);
            ddp_text_add_u64(out, step->dep[d], 0);
            is_first = false;
        }
    }
    ddp_text_add_str(out, "\n", 0);
    return DDP_OK;
}

static ddp_status print_answer(const struct plugin_source *source,
                               const struct ddprove_coll_question *question,
                               const struct harness_plugin_answer *answer, struct ddp_text *out,
                               struct ddp_err *err)
{
    ddp_text_add(out,
                 "schedule 1 kind=%s algorithm=%s rank=%u size=%u count=%llu dtype=%s root=%u "
                 "in_place=%u\n",
                 ddp_coll_kind_name(source->base.kind), source->base.name, question->rank,
                 question->size, (unsigned long long)question->count,
                 ddp_dtype_name((enum ddp_dtype)(question->dtype - 1)), question->root,
                 question->is_in_place);
    for (uint32_t i = 0; i < answer->scratch_count; i++) {
        uint32_t dtype = answer->scratch[i].dtype;

        if (dtype < DDPROVE_COLL_F32 || dtype > DDPROVE_COLL_U8) {
            return ddp_err_set(err, DDP_E_INVALID, "scratch %u: type %u is not known", i, dtype);
        }
        ddp_text_add(out, "scratch %u dtype=%s count=%llu\n", i,
                     ddp_dtype_name((enum ddp_dtype)(dtype - 1)),
                     (unsigned long long)answer->scratch[i].count);
    }
    for (size_t i = 0; i < answer->step_count; i++) {
        DDP_TRY(print_step(i, &answer->steps[i], out, err));
    }
    return out->is_failed ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status emit_plugin(struct harness_coll_source *base,
                              const struct harness_coll_case *test, uint32_t rank,
                              struct ddp_text *out, struct ddp_err *err)
{
    struct plugin_source *source = (struct plugin_source *)base;
    const struct ddprove_coll_question question = {.rank = rank,
                                                   .size = test->world,
                                                   .root = test->root,
                                                   .count = test->elem_count,
                                                   .segment = test->segment_elem_count,
                                                   .is_in_place =
                                                       harness_coll_is_in_place(base, test, rank),
                                                   .dtype = (uint32_t)test->dtype + 1,
                                                   .node_of_rank = test->node_of_rank};
    struct harness_plugin_answer answer;

    DDP_TRY(harness_plugin_ask(source->plugin, &question, &answer, err));
    base->leaked_bytes = answer.leaked_bytes;
    return print_answer(source, &question, &answer, out, err);
}

static void destroy_plugin(struct harness_coll_source *base)
{
    harness_plugin_close(((struct plugin_source *)base)->plugin);
    ddp_mem_free(ddp_mem_system(), base);
}

static const struct harness_coll_source_ops plugin_ops = {emit_plugin, destroy_plugin, NULL};

ddp_status harness_coll_plugin_open(const char *program, const char *path,
                                    struct harness_coll_source **out, struct ddp_err *err)
{
    struct plugin_source *source = ddp_mem_array(ddp_mem_system(), 1, sizeof(*source));
    ddp_status status;

    *out = NULL;
    if (source == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory");
    }
    status = harness_plugin_open(program, path, &source->plugin, err);
    if (status != DDP_OK) {
        ddp_mem_free(ddp_mem_system(), source);
        return status;
    }
    source->base = (struct harness_coll_source){
        .ops = &plugin_ops,
        .name = harness_plugin_name(source->plugin),
        .kind = (enum ddp_coll_kind)harness_plugin_kind(source->plugin),
        .claims = harness_plugin_claims(source->plugin),
        .is_measured = true};
    *out = &source->base;
    return DDP_OK;
}
