#include "harness/observed/observed.h"

#include "harness/observed/internal.h"

static void take(void *context, uint32_t rank, const struct guest_entry *entry)
{
    struct harness_observed *observed = context;

    switch ((enum guest_event)(entry->place >> 56)) {
    case GUEST_EVENT_EPOCH:
    case GUEST_EVENT_EPOCH_END:
    case GUEST_EVENT_SAMPLES:
    case GUEST_EVENT_BATCH:
        observed_take_ledger(observed, rank, entry);
        break;
    case GUEST_EVENT_UNUSED:
        observed_take_unused(observed, rank, entry);
        break;
    case GUEST_EVENT_KEYS:
        observed_take_keys(observed, rank, entry);
        break;
    default:
        observed_take_model(observed, rank, entry);
        break;
    }
}

ddp_status harness_observed_create(struct harness_watch *watch, struct harness_observed **out)
{
    struct ddp_mem *mem = ddp_mem_system();
    struct harness_observed *observed = ddp_mem_array(mem, 1, sizeof *observed);

    *out = observed;
    if (observed == NULL) {
        return DDP_E_NOMEM;
    }
    *observed =
        (struct harness_observed){.watch = watch, .mem = mem, .next_update = 1, .seen_update = 1};
    observed->models = ddp_mem_array(mem, watch->world_size, sizeof *observed->models);
    observed->epoch_of = ddp_mem_array(mem, watch->world_size, sizeof *observed->epoch_of);
    observed->passes = ddp_mem_array(mem, watch->world_size, sizeof *observed->passes);
    if (observed->models == NULL || observed->epoch_of == NULL || observed->passes == NULL ||
        ddp_mem_pool_create(&observed->pool) != DDP_OK) {
        harness_observed_destroy(observed);
        *out = NULL;
        return DDP_E_NOMEM;
    }
    harness_findings_init(&observed->of_keys, ddp_mem_pool_mem(observed->pool));
    for (uint32_t r = 0; r < watch->world_size; r++) {
        observed->models[r].first = 1;
    }
    watch->on_report = take;
    watch->report_context = observed;
    return DDP_OK;
}

void harness_observed_destroy(struct harness_observed *observed)
{
    if (observed == NULL) {
        return;
    }
    if (observed->models != NULL) {
        observed_free_model(observed);
    }
    observed_free_ledger(observed);
    if (observed->watch->report_context == observed) {
        observed->watch->on_report = NULL;
        observed->watch->report_context = NULL;
    }
    if (observed->pool != NULL) {
        ddp_mem_pool_destroy(observed->pool);
    }
    ddp_mem_free(observed->mem, observed->models);
    ddp_mem_free(observed->mem, observed->epoch_of);
    ddp_mem_free(observed->mem, observed->passes);
    ddp_mem_free(observed->mem, observed);
}

void harness_observed_judge(struct harness_observed *observed,
                            const struct harness_findings *earlier, struct harness_findings *out)
{
    if (!observed_has_lost(observed)) {
        observed_judge_model(observed, earlier, out);
        observed_judge_ledger(observed, out);
        observed_judge_usage(observed, out);
    }
    observed_judge_keys(observed, out);
}

void harness_observed_end(struct harness_observed *observed)
{
    observed->is_ended = true;
}

bool harness_observed_is_pending(const struct harness_observed *observed, uint32_t rank)
{
    bool is_pending = observed->passes[rank].wrong != NULL && !observed->passes[rank].is_said;

    for (size_t i = 0; i < observed->of_keys.count; i++) {
        is_pending = is_pending || harness_rank_set_has(&observed->of_keys.items[i].culprits, rank);
    }
    return is_pending;
}

bool harness_observed_is_failed(const struct harness_observed *observed)
{
    return observed->is_failed;
}

/* --- what was judged
 * ----------------------------------------------------------------------------------------------
 */

/* Updates that some rank reported and that were not compared. */
static uint64_t left_updates(const struct harness_observed *observed)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        const struct observed_model *model = &observed->models[r];
        const uint64_t end = model->first + model->count; /* behind the last one */

        most = end > most ? end : most;
    }
    return most > observed->next_update ? most - observed->next_update : 0;
}

static void account_model(const struct harness_observed *observed,
                          struct harness_watch_accounts *out)
{
    const uint64_t left = left_updates(observed);

    out->of[HARNESS_ORACLE_REPLICAS] = observed->replicas;
    out->of[HARNESS_ORACLE_UPDATE] = observed->update;
    if (observed->is_model_strange) {
        harness_watch_add_lack(out, HARNESS_ORACLE_REPLICAS, left,
                               "what the program reports of its model makes no sense");
    } else if (left > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_REPLICAS, left,
                               "updates not reported by all ranks, or behind an error");
    } else if (observed->tables == NULL) {
        harness_watch_add_lack(out, HARNESS_ORACLE_REPLICAS, 0,
                               "the program reports no parameters");
    }
    if (observed->unseen > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_REPLICAS, observed->unseen,
                               "some of the tensors cannot be read by the host");
    }
    if (observed->hidden > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_UPDATE, observed->hidden,
                               "the program's options, gradients or states were not shown");
    }
    if (observed->unknown > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_UPDATE, observed->unknown,
                               "of an optimizer or a type that is not worked out again");
    }
    if (observed->blind > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_UPDATE, observed->blind,
                               "too small to be told from rounding");
    }
    if (observed->update.judged + observed->hidden + observed->unknown + observed->blind == 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_UPDATE, 0,
                               observed->tables == NULL ? "the program reports no parameters"
                                                        : "no update's data were kept");
    }
}

static void account_ledger(const struct harness_observed *observed,
                           struct harness_watch_accounts *out)
{
    uint64_t open = 0;

    out->of[HARNESS_ORACLE_LEDGER] = observed->ledger;
    for (size_t e = 0; e < observed->epoch_count; e++) {
        open += !observed->epochs[e].is_over;
    }
    if (observed->is_ledger_strange) {
        harness_watch_add_lack(
            out, HARNESS_ORACLE_LEDGER, 0,
            "what the program reports of its samples makes no sense, or they are too many");
    } else if (open > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_LEDGER, open,
                               "epochs that were broken off, or with an error");
    } else if (observed->epoch_count == 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_LEDGER, 0, "the program reports no samples");
    }
}

static void account_told(const struct harness_observed *observed,
                         struct harness_watch_accounts *out)
{
    out->of[HARNESS_ORACLE_USAGE] = observed->usage;
    out->of[HARNESS_ORACLE_CHECKPOINT] = observed->checkpoint;
    if (observed->unnamed > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_USAGE, observed->unnamed,
                               "the names of parameters were overwritten before they were read");
    } else if (observed->usage.judged == 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_USAGE, 0,
                               "the program does not say which parameters got no gradient");
    }
    if (observed->foreign_keys > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_CHECKPOINT, observed->foreign_keys,
                               "the keys of a state dict are not the model's, or were not read");
    } else if (observed->checkpoint.judged == 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_CHECKPOINT, 0,
                               "the program saves and loads no model, or does not say so");
    }
}

void harness_observed_account(const struct harness_observed *observed,
                              struct harness_watch_accounts *out)
{
    account_model(observed, out);
    account_ledger(observed, out);
    account_told(observed, out);
}
