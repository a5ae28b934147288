/* NCCL's RAS: how many calls of each kind every rank of a communicator has made, and who does not
 * answer. Ranks are numbered within the communicator; in the largest one that is the job's. */
#include <string.h>

#include "ddpcore/base/text.h"
#include "harness/dumps/read.h"

bool harness_diag_is_ras(json_t *root)
{
    return json_is_array(json_object_get(root, "communicators"));
}

static int64_t largest_size(json_t *root)
{
    json_t *one;
    int64_t largest = 0;
    size_t i;

    json_array_foreach(json_object_get(root, "communicators"), i, one)
    {
        int64_t size = json_integer_value(json_object_get(one, "size"));

        largest = size > largest ? size : largest;
    }
    return largest;
}

static bool read_rank(json_t *entry, uint32_t *out)
{
    json_t *rank = json_object_get(entry, "rank");

    if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
        json_integer_value(rank) >= HARNESS_WORLD_MAX) {
        return false;
    }
    *out = (uint32_t)json_integer_value(rank);
    return true;
}

static bool is_set(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return json_is_true(value) || json_integer_value(value) != 0;
}

/* "AllReduce 12, Broadcast 1", and their sum. */
static const char *counts_of(struct harness_diag_evidence *evidence, json_t *counts, int64_t *total)
{
    struct ddp_text text;
    const char *kept;
    const char *kind;
    json_t *value;

    *total = 0;
    ddp_text_init(&text, evidence->mem);
    json_object_foreach(counts, kind, value)
    {
        int64_t count = json_integer_value(value);

        if (count > 0 && count <= HARNESS_DIAG_SEQ_MAX - *total) {
            *total += count;
            ddp_text_add(&text, "%s%.40s %lld", text.size_bytes > 0 ? ", " : "", kind,
                         (long long)count);
        }
    }
    kept = harness_diag_keep(evidence, ddp_text_str(&text));
    ddp_text_fini(&text);
    return kept;
}

/* The members of one size whose counts of kinds differ from the others' have posted other kinds. */
static void find_odd_kinds(struct harness_diag_evidence *evidence, json_t *ranks, const char *file)
{
    size_t count = json_array_size(ranks);

    for (size_t i = 0; i < count && count >= 3; i++) {
        json_t *own = json_object_get(json_array_get(ranks, i), "collective_counts");
        size_t alike = 0;
        int64_t total = 0;
        uint32_t rank = 0;

        for (size_t k = 0; k < count; k++) {
            json_t *other = json_object_get(json_array_get(ranks, k), "collective_counts");
            int64_t others = 0;

            (void)counts_of(evidence, own, &total);
            (void)counts_of(evidence, other, &others);
            if (total != others) {
                return; /* somebody is behind: that comes first */
            }
            alike += json_equal(own, other) != 0;
        }
        if (2 * alike < count && read_rank(json_array_get(ranks, i), &rank)) {
            harness_diag_note(
                evidence, HARNESS_DIAG_NOTE_ODD, rank, 0, (struct harness_diag_place){file, 0, -1},
                harness_diag_keep_format(evidence, "it has posted %s, unlike the others",
                                         counts_of(evidence, own, &total)));
        }
    }
}

static void read_member(struct harness_diag_evidence *evidence, json_t *entry, size_t group,
                        const char *file, bool is_local)
{
    struct harness_diag_place place = {file, 0, -1};
    struct harness_diag_record *record;
    struct harness_diag_part *part;
    const char *counts;
    int64_t total = 0;
    uint32_t rank = 0;

    if (!read_rank(entry, &rank)) {
        return;
    }
    counts = counts_of(evidence, json_object_get(entry, "collective_counts"), &total);
    record = harness_diag_record_add(evidence, rank, file);
    part = record != NULL ? harness_diag_record_part(evidence, record, group) : NULL;
    if (part == NULL) {
        return;
    }
    record->is_log = true;
    part->posted = total;
    if (!is_local) {
        harness_diag_note(evidence, HARNESS_DIAG_NOTE_COUNTS, rank, total, place,
                          harness_diag_keep_format(evidence, "RAS: %s", counts));
    }
}

static void read_missing(struct harness_diag_evidence *evidence, json_t *entry, const char *file,
                         bool is_local)
{
    json_t *status = json_object_get(entry, "status");
    uint32_t rank = 0;

    if (!read_rank(entry, &rank) || is_local) {
        return;
    }
    harness_diag_note(
        evidence, HARNESS_DIAG_NOTE_DEAD, rank, 0, (struct harness_diag_place){file, 0, -1},
        is_set(status, "considered_dead") ? "RAS considers it dead" : "it does not answer RAS");
}

void harness_diag_ras_read(struct harness_diag_evidence *evidence, json_t *root, const char *file)
{
    int64_t largest = largest_size(root);
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(root, "communicators"), i, one)
    {
        json_t *hash = json_object_get(one, "hash");
        int64_t size = json_integer_value(json_object_get(one, "size"));
        bool is_local = size < largest;
        const char *name =
            json_is_string(hash)
                ? harness_diag_keep_format(evidence, "communicator %.40s", json_string_value(hash))
                : harness_diag_keep_format(evidence, "communicator %zu", i);
        size_t group = harness_diag_group(evidence, name, "");
        json_t *entry;
        size_t k;

        if (group == SIZE_MAX) {
            return;
        }
        evidence->groups[group].is_local = is_local;
        evidence->groups[group].is_complete = true;
        for (int64_t rank = 0; rank < size && rank < HARNESS_WORLD_MAX; rank++) {
            harness_rank_set_add(&evidence->groups[group].ranks, (uint32_t)rank);
        }
        json_array_foreach(json_object_get(one, "ranks"), k, entry)
        {
            read_member(evidence, entry, group, file, is_local);
        }
        json_array_foreach(json_object_get(one, "missing_ranks"), k, entry)
        {
            read_missing(evidence, entry, file, is_local);
        }
        if (!is_local) {
            find_odd_kinds(evidence, json_object_get(one, "ranks"), file);
        }
    }
}
