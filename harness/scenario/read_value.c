/* Single values: text, names, numbers. Each reader checks what stands there, then stores it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/scenario/exports.h"
#include "harness/scenario/reader.h"
#include "reference/data.h"
#include "reference/model.h"

/* A program takes whatever words it likes. */
static ddp_status check_text(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node)
{
    const bool is_word = key == harness_key(HARNESS_ROW_GUEST_command);

    if (node->kind != HARNESS_YAML_SCALAR || harness_yaml_is_typed(node) ||
        (node->text[0] == '\0' && !(is_word && node->is_quoted))) {
        return harness_reader_refuse(reader, key, node,
                                     "text (quote it if it looks like something else)");
    }
    for (const char *c = node->text; !is_word && *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) {
            return harness_yaml_fail(node, reader->err, DDP_E_PARSE,
                                     "%s wants one line of printable ASCII", key->key);
        }
    }
    return DDP_OK;
}

ddp_status harness_read_text(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node, void *member)
{
    if (node != NULL) {
        DDP_TRY(check_text(reader, key, node));
    }
    return harness_reader_keep(reader, node == NULL ? NULL : node->text, member);
}

static ddp_status check_name(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node)
{
    return node->kind != HARNESS_YAML_SCALAR || (node->text[0] == '\0' && !node->is_quoted)
               ? harness_reader_refuse(reader, key, node, "a name")
               : DDP_OK;
}

/* A name of reference's. */
static ddp_status read_known(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node, const char *what,
                             const char *const *known, const char **out)
{
    size_t count = 0;

    *out = NULL;
    if (node == NULL) {
        return DDP_OK;
    }
    DDP_TRY(check_name(reader, key, node));
    for (; known[count] != NULL; count++) {
        if (strcmp(known[count], node->text) == 0) {
            *out = known[count];
            return DDP_OK;
        }
    }
    return harness_reader_refuse_name(reader, node, what, known, count);
}

ddp_status harness_read_model(const struct harness_reader *reader, const struct harness_key *key,
                              const struct harness_yaml_node *node, void *member)
{
    return read_known(reader, key, node, "model", ref_model_names(), member);
}

ddp_status harness_read_dataset(const struct harness_reader *reader, const struct harness_key *key,
                                const struct harness_yaml_node *node, void *member)
{
    return read_known(reader, key, node, "dataset", ref_data_names(), member);
}

ddp_status harness_read_name(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node, void *member)
{
    enum harness_names list = (enum harness_names)key->of;
    int value = harness_names_absent(list);
    size_t index;

    if (node != NULL) {
        DDP_TRY(check_name(reader, key, node));
        DDP_TRY(harness_reader_find(reader, node, list, &index, &value));
    } else if (key->fallback == NULL) {
        value = 0; /* of a section that is absent */
    }
    if (key->size_bytes == sizeof(bool)) {
        *(bool *)member = value != 0;
    } else {
        DDP_ASSERT(key->size_bytes == sizeof(value));
        memcpy(member, &value, sizeof(value));
    }
    return DDP_OK;
}

/* A path begins with a dot or a slash, which no name does. Which form of plug-in it is, is read off
 * the file: nobody's code runs while a scenario is read. */
static ddp_status read_plugin(const struct harness_reader *reader,
                              const struct harness_yaml_node *node,
                              struct harness_collective *member)
{
    *member = (struct harness_collective){.engine = HARNESS_ENGINE_SCHEDULE};
    if (access(node->text, R_OK) != 0) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "%s: %s; name a shared object that ddprove coll check knows",
                                 node->text, strerror(errno));
    }
    if (!harness_file_exports(node->text, "ddprove_coll_plugin") &&
        harness_file_exports(node->text, "ddprove_coll_opaque_plugin")) {
        member->engine = HARNESS_ENGINE_OPAQUE;
    }
    return harness_reader_keep(reader, node->text, &member->plugin);
}

ddp_status harness_read_collective(const struct harness_reader *reader,
                                   const struct harness_key *key,
                                   const struct harness_yaml_node *node, void *member)
{
    const char *name;
    size_t index;
    int value;

    DDP_TRY(check_name(reader, key, node));
    if (node->text[0] == '.' || node->text[0] == '/') {
        return read_plugin(reader, node, member);
    }
    DDP_TRY(harness_reader_find(reader, node, (enum harness_names)key->of, &index, &value));
    DDP_ASSERT(harness_collective_at(index, member, &name));
    return DDP_OK;
}

static ddp_status refuse_range(const struct harness_reader *reader, const struct harness_key *key,
                               const struct harness_yaml_node *node, const char *what)
{
    char wanted[128];

    (void)snprintf(wanted, sizeof(wanted), "%s from %.10g to %.10g", what, key->lo, key->hi);
    return harness_reader_refuse(reader, key, node, wanted);
}

static ddp_status read_whole(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node, int64_t *out)
{
    if (!harness_yaml_int(node, out) || (double)*out < key->lo || (double)*out > key->hi) {
        return refuse_range(reader, key, node, "a whole number");
    }
    return DDP_OK;
}

static void store_u64(const struct harness_key *key, uint64_t value, void *member)
{
    uint32_t narrow = (uint32_t)value;

    if (key->size_bytes == sizeof(narrow)) {
        memcpy(member, &narrow, sizeof(narrow));
        return;
    }
    DDP_ASSERT(key->size_bytes == sizeof(value));
    memcpy(member, &value, sizeof(value));
}

ddp_status harness_read_int(const struct harness_reader *reader, const struct harness_key *key,
                            const struct harness_yaml_node *node, void *member)
{
    int64_t value = 0;

    if (node != NULL) {
        DDP_TRY(read_whole(reader, key, node, &value));
    }
    store_u64(key, (uint64_t)value, member);
    return DDP_OK;
}

ddp_status harness_read_index(const struct harness_reader *reader, const struct harness_key *key,
                              const struct harness_yaml_node *node, void *member)
{
    *(int64_t *)member = -1;
    return node == NULL ? DDP_OK : read_whole(reader, key, node, member);
}

ddp_status harness_read_u64(const struct harness_reader *reader, const struct harness_key *key,
                            const struct harness_yaml_node *node, void *member)
{
    return harness_yaml_u64(node, member)
               ? DDP_OK
               : harness_reader_refuse(reader, key, node, "a whole number below 2^64");
}

ddp_status harness_read_number(const struct harness_reader *reader, const struct harness_key *key,
                               const struct harness_yaml_node *node, void *member)
{
    double value = 0;

    if (node != NULL &&
        (!harness_yaml_number(node, &value) || value < key->lo || value > key->hi)) {
        return refuse_range(reader, key, node, "a number");
    }
    *(double *)member = value;
    return DDP_OK;
}

ddp_status harness_read_kib(const struct harness_reader *reader, const struct harness_key *key,
                            const struct harness_yaml_node *node, void *member)
{
    double kib = 0;

    DDP_TRY(harness_read_number(reader, key, node, &kib));
    if (floor(kib * 1024.0) < kib * 1024.0) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "%s KiB is %.10g bytes; give a whole number of bytes", node->text,
                                 kib * 1024.0);
    }
    store_u64(key, (uint64_t)(kib * 1024.0), member);
    return DDP_OK;
}

ddp_status harness_read_ms(const struct harness_reader *reader, const struct harness_key *key,
                           const struct harness_yaml_node *node, void *member)
{
    int64_t ms = 0;

    DDP_TRY(read_whole(reader, key, node, &ms));
    store_u64(key, (uint64_t)ms * 1000000u, member);
    return DDP_OK;
}

ddp_status harness_read_bool(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node, void *member)
{
    *(bool *)member = harness_yaml_is(node, "true");
    return *(bool *)member || harness_yaml_is(node, "false")
               ? DDP_OK
               : harness_reader_refuse(reader, key, node, harness_key_type_text(key->type));
}

ddp_status harness_read_true(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node, void *member)
{
    (void)member;
    return node == NULL || harness_yaml_is(node, "true")
               ? DDP_OK
               : harness_reader_refuse(reader, key, node, harness_key_type_text(key->type));
}

/* A number or one of a few words: what else is plain text gets the type's own message. */
static bool is_other_word(const struct harness_yaml_node *node)
{
    return node->kind == HARNESS_YAML_SCALAR && !harness_yaml_is_typed(node);
}

ddp_status harness_read_rank(const struct harness_reader *reader, const struct harness_key *key,
                             const struct harness_yaml_node *node, void *member)
{
    uint32_t ranks = reader->plan->job.ranks;
    int64_t rank = 0;

    if (harness_yaml_is(node, "middle")) {
        rank = ranks / 2;
    } else if (harness_yaml_is(node, "last")) {
        rank = (int64_t)ranks - 1;
    } else if (!harness_yaml_is(node, "first") && (!harness_yaml_int(node, &rank) || rank < 0)) {
        return harness_reader_refuse(reader, key, node, harness_key_type_text(HARNESS_KEY_RANK));
    }
    if (rank >= (int64_t)ranks) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "%s is %s, but the job has %u ranks, counted from 0", key->key,
                                 node->text, ranks);
    }
    *(uint32_t *)member = (uint32_t)rank;
    return DDP_OK;
}

ddp_status harness_read_forever(const struct harness_reader *reader, const struct harness_key *key,
                                const struct harness_yaml_node *node, void *member)
{
    bool is_forever = node == NULL || harness_yaml_is(node, "forever");

    if (!is_forever && is_other_word(node)) {
        return harness_reader_refuse(reader, key, node, harness_key_type_text(key->type));
    }
    return harness_read_int(reader, key, is_forever ? NULL : node, member);
}

/* `value` of `do`: what it must be depends on the action (harness_scenario_check_action). */
ddp_status harness_read_scalar(const struct harness_reader *reader, const struct harness_key *key,
                               const struct harness_yaml_node *node, void *member)
{
    *(double *)member = 0;
    return node == NULL || (node->kind == HARNESS_YAML_SCALAR && node->text[0] != '\0')
               ? DDP_OK
               : harness_reader_refuse(reader, key, node, harness_key_type_text(key->type));
}
