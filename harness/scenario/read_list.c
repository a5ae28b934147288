/* Lists, and the map of budgets. */
#include <string.h>

#include "harness/scenario/reader.h"

static ddp_status check_list(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node)
{
    if (node->kind != HARNESS_YAML_LIST) {
        return harness_reader_refuse(reader, key, node, harness_key_type_text(key->type));
    }
    if (node->count == 0) {
        return harness_yaml_fail(node, reader->err, DDP_E_PARSE,
                                 "%s wants at least one entry; remove the key if there is none",
                                 key->key);
    }
    return DDP_OK;
}

/* Memory for an entry each; count > 0. */
static ddp_status alloc_items(const struct harness_reader *reader, size_t count, size_t size_bytes,
                              void *out)
{
    void *items = ddp_mem_array(reader->keep, count, size_bytes);

    if (items == NULL) {
        return harness_reader_out_of_memory(reader);
    }
    memcpy(out, &items, sizeof(items));
    return DDP_OK;
}

ddp_status harness_read_texts(const struct harness_reader *reader, const struct harness_key *key,
                              const struct harness_yaml_node *node, void *member)
{
    struct harness_texts *texts = member;

    *texts = (struct harness_texts){NULL, 0};
    if (node == NULL) {
        return DDP_OK;
    }
    DDP_TRY(check_list(reader, key, node));
    DDP_TRY(alloc_items(reader, node->count, sizeof(*texts->items), &texts->items));
    for (; texts->count < node->count; texts->count++) {
        DDP_TRY(
            harness_read_text(reader, key, node->items[texts->count], &texts->items[texts->count]));
    }
    return DDP_OK;
}

ddp_status harness_read_names(const struct harness_reader *reader, const struct harness_key *key,
                              const struct harness_yaml_node *node, void *member)
{
    struct harness_verdicts *list = member;
    size_t count_max = sizeof(list->items) / sizeof(list->items[0]);
    struct harness_key entry = *key;

    *list = (struct harness_verdicts){.count = 0};
    if (node == NULL) {
        return DDP_OK;
    }
    DDP_TRY(check_list(reader, key, node));
    if (node->count > count_max) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "%s has %zu entries; at most %zu may stand beside a verdict",
                                 key->key, node->count, count_max);
    }
    entry.size_bytes = sizeof(list->items[0]);
    for (; list->count < node->count; list->count++) {
        DDP_TRY(
            harness_read_name(reader, &entry, node->items[list->count], &list->items[list->count]));
    }
    return DDP_OK;
}

/* Absent: all of them. */
ddp_status harness_read_set(const struct harness_reader *reader, const struct harness_key *key,
                            const struct harness_yaml_node *node, void *member)
{
    bool *is_in = member;
    size_t index;
    int value;

    /* Of a set with a default, that is all of them. */
    memset(is_in, node == NULL && key->fallback[0] != '\0', key->size_bytes);
    if (node != NULL && node->kind != HARNESS_YAML_LIST) {
        return harness_reader_refuse(reader, key, node, harness_key_type_text(key->type));
    }
    for (size_t i = 0; node != NULL && i < node->count; i++) {
        if (node->items[i]->kind != HARNESS_YAML_SCALAR) {
            return harness_reader_refuse(reader, key, node->items[i], "a name");
        }
        DDP_TRY(harness_reader_find(reader, node->items[i], (enum harness_names)key->of, &index,
                                    &value));
        is_in[value] = true;
    }
    return DDP_OK;
}

/* Entries of a row whose members are size_t. */
static ddp_status read_entry(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node, size_t *out)
{
    struct harness_key entry = *key;

    entry.size_bytes = sizeof(*out);
    return harness_read_int(reader, &entry, node, out);
}

ddp_status harness_read_sizes(const struct harness_reader *reader, const struct harness_key *key,
                              const struct harness_yaml_node *node, void *member)
{
    struct harness_sizes *sizes = member;

    *sizes = (struct harness_sizes){NULL, 0};
    if (node == NULL) {
        return DDP_OK;
    }
    DDP_TRY(check_list(reader, key, node));
    DDP_TRY(alloc_items(reader, node->count, sizeof(*sizes->items), &sizes->items));
    for (; sizes->count < node->count; sizes->count++) {
        DDP_TRY(read_entry(reader, key, node->items[sizes->count], &sizes->items[sizes->count]));
    }
    return DDP_OK;
}

/* A list of exactly as many entries as the job has ranks, or one number for all. */
ddp_status harness_read_per_rank(const struct harness_reader *reader, const struct harness_key *key,
                                 const struct harness_yaml_node *node, void *member)
{
    uint32_t ranks = reader->plan->job.ranks;
    size_t *sizes = NULL;
    bool is_list;

    memcpy(member, &sizes, sizeof(sizes));
    if (node == NULL) {
        return DDP_OK;
    }
    is_list = node->kind == HARNESS_YAML_LIST;
    if (is_list && node->count != ranks) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "the list has %zu entries, but the job has %u ranks; give one "
                                 "each",
                                 node->count, ranks);
    }
    DDP_TRY(alloc_items(reader, ranks, sizeof(*sizes), &sizes));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        DDP_TRY(read_entry(reader, key, is_list ? node->items[rank] : node, &sizes[rank]));
    }
    memcpy(member, &sizes, sizeof(sizes));
    return DDP_OK;
}

/* Absent: none; harness_scenario_check_expect knows better. */
ddp_status harness_read_culprit(const struct harness_reader *reader, const struct harness_key *key,
                                const struct harness_yaml_node *node, void *member)
{
    struct harness_culprit *culprit = member;

    *culprit = (struct harness_culprit){.is_stated = node != NULL,
                                        .ranks = harness_rank_set_in(reader->keep)};
    if (node == NULL || harness_yaml_is(node, "none")) {
        return DDP_OK;
    }
    if (key->type == HARNESS_KEY_VICTIMS) {
        culprit->is_others = harness_yaml_is(node, "others");
    } else {
        culprit->is_injected = harness_yaml_is(node, "injected");
        culprit->is_all = harness_yaml_is(node, "all");
    }
    if (culprit->is_injected || culprit->is_all || culprit->is_others) {
        return DDP_OK;
    }
    DDP_TRY(check_list(reader, key, node));
    for (size_t i = 0; i < node->count; i++) {
        uint32_t rank;

        DDP_TRY(harness_read_rank(reader, key, node->items[i], &rank));
        harness_rank_set_add(&culprit->ranks, rank);
    }
    return culprit->ranks.ranks.is_failed ? harness_reader_out_of_memory(reader) : DDP_OK;
}

/* How long a rank may be silent in a phase if the scenario does not say. Ranks that share a card
 * make their contexts one after the other: on an H100 with CUDA 13 the first communicator was there
 * after 2.3 s with one rank, 3.9 with two, and not within 5 with four. */
static uint64_t budget_default_ms(const struct harness_job *job, enum ddp_phase phase)
{
    enum { CUDA_INIT_MS = 20000, CONTEXT_MS = 5000 };
    const uint64_t sharing = job->ranks < job->ranks_per_gpu ? job->ranks : job->ranks_per_gpu;

    if (job->device == HARNESS_DEVICE_CUDA && phase == DDP_PHASE_INIT) {
        return CUDA_INIT_MS + sharing * CONTEXT_MS;
    }
    return ddp_phase_budget_ms(phase);
}

/* A map from phases to ms; a phase that is absent has its own default. It stands behind the device
 * and the ranks in the table of keys, so these have been read. */
ddp_status harness_read_budgets(const struct harness_reader *reader, const struct harness_key *key,
                                const struct harness_yaml_node *node, void *member)
{
    const struct harness_job *job = &reader->plan->job;
    uint64_t *budget_ms = member;
    struct harness_key entry = *key;

    DDP_ASSERT(member == &job->phase_budget_ms);
    entry.size_bytes = sizeof(budget_ms[0]);
    for (unsigned i = 0; i < DDP_PHASE_COUNT; i++) {
        budget_ms[i] = budget_default_ms(job, (enum ddp_phase)i);
    }
    if (node != NULL && node->kind != HARNESS_YAML_MAP) {
        return harness_reader_refuse(reader, key, node, harness_key_type_text(key->type));
    }
    for (size_t i = 0; node != NULL && i < node->count; i++) {
        size_t index;
        int phase;

        DDP_TRY(harness_reader_find(reader, node->keys[i], (enum harness_names)key->of, &index,
                                    &phase));
        entry.key = node->keys[i]->text;
        DDP_TRY(harness_read_int(reader, &entry, node->items[i], &budget_ms[phase]));
    }
    return DDP_OK;
}
