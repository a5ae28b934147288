/* Purpose: read measured trees strictly: known words, ranges without gaps, every member once.
 * Idea: a tree is kept as the operations of a stack machine, so that running it is one loop. */
#include "harness/sums/tree.h"

#include <string.h>

#include "ddpcore/base/text.h"
#include "ddpcore/seam/recorder.h"

struct reader {
    const char *at;
    unsigned line;
    struct harness_tree_map *out;
    struct ddp_err *err;
};

static ddp_status fail(const struct reader *reader, const char *what)
{
    return ddp_err_set(reader->err, DDP_E_PARSE, "line %u: %s", reader->line, what);
}

/* --- words ------------------------------------------------------------------------------------ */

static ddp_status skip(struct reader *reader, char expected)
{
    char what[] = "expected 'x'";

    if (*reader->at != expected) {
        what[sizeof(what) - 3] = expected;
        return fail(reader, expected == '\n' ? "expected the end of the line" : what);
    }
    reader->at++;
    reader->line += expected == '\n';
    return DDP_OK;
}

/* Letters and digits up to a space or the end of the line. */
static ddp_status read_word(struct reader *reader, char *out, size_t size_bytes)
{
    size_t length = strcspn(reader->at, " \n");

    if (length == 0 || length >= size_bytes) {
        return fail(reader, "expected a word");
    }
    memcpy(out, reader->at, length);
    out[length] = '\0';
    reader->at += length;
    return DDP_OK;
}

static ddp_status read_number(struct reader *reader, uint64_t limit, uint64_t *out)
{
    uint64_t value = 0;

    if (*reader->at < '0' || *reader->at > '9') {
        return fail(reader, "expected a number");
    }
    for (; *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        value = 10 * value + (uint64_t)(*reader->at - '0');
        if (value > limit) {
            return fail(reader, "the number is too large");
        }
    }
    DDP_ASSERT(value <= limit);
    *out = value;
    return DDP_OK;
}

/* "<key> <value>" as a whole line. */
static ddp_status read_key(struct reader *reader, const char *key, char *value, size_t size_bytes)
{
    char word[16];

    DDP_TRY(read_word(reader, word, sizeof(word)));
    if (strcmp(word, key) != 0) {
        return ddp_err_set(reader->err, DDP_E_PARSE, "line %u: expected '%s', not '%s'",
                           reader->line, key, word);
    }
    DDP_TRY(skip(reader, ' '));
    DDP_TRY(read_word(reader, value, size_bytes));
    return skip(reader, '\n');
}

static ddp_status read_key_number(struct reader *reader, const char *key, uint64_t limit,
                                  uint64_t *out)
{
    char value[24];

    DDP_TRY(read_key(reader, key, value, sizeof(value)));
    if (ddp_text_parse_u64(value, out) != DDP_OK || *out > limit) {
        reader->line--;
        return fail(reader, "not a number in range");
    }
    return DDP_OK;
}

/* --- head ------------------------------------------------------------------------------------- */

static ddp_status expect_key(struct reader *reader, const char *key, const char *expected)
{
    char value[24];

    DDP_TRY(read_key(reader, key, value, sizeof(value)));
    if (strcmp(value, expected) != 0) {
        return ddp_err_set(reader->err, DDP_E_PARSE, "line %u: %s '%s' is not '%s'",
                           reader->line - 1, key, value, expected);
    }
    return DDP_OK;
}

static bool is_float(enum ddp_dtype dtype)
{
    return dtype == DDP_DTYPE_F32 || dtype == DDP_DTYPE_F16 || dtype == DDP_DTYPE_BF16;
}

static ddp_status read_head(struct reader *reader)
{
    static const char head_line[] = "ddprove tree 1\n";
    struct harness_tree_map *out = reader->out;
    uint64_t number = 0;
    char value[24];

    if (strncmp(reader->at, head_line, sizeof(head_line) - 1) != 0) {
        return fail(reader, "expected 'ddprove tree 1'");
    }
    reader->at += sizeof(head_line) - 1;
    reader->line++;
    DDP_TRY(expect_key(reader, "kind", ddp_coll_kind_name(DDP_COLL_ALL_REDUCE)));
    DDP_TRY(expect_key(reader, "redop", ddp_redop_name(DDP_REDOP_SUM)));
    DDP_TRY(read_key(reader, "dtype", value, sizeof(value)));
    if (ddp_dtype_parse(value, &out->dtype) != DDP_OK) {
        reader->line--;
        return fail(reader, "no such dtype");
    }
    DDP_TRY(read_key_number(reader, "elem_count", SIZE_MAX / 16, &number));
    out->elem_count = (size_t)number;
    DDP_TRY(read_key_number(reader, "members", HARNESS_WORLD_MAX, &number));
    out->member_count = (uint32_t)number;
    DDP_TRY(read_key(reader, "round", value, sizeof(value)));
    out->is_last = strcmp(value, "last") == 0;
    if (!out->is_last && strcmp(value, "first") != 0) {
        reader->line--;
        return fail(reader, "a round is 'first' or 'last'");
    }
    return DDP_OK;
}

/* --- result ----------------------------------------------------------------------------------- */

static enum harness_verdict verdict_of(const char *word)
{
    static const struct {
        const char *word;
        enum harness_verdict verdict;
    } words[] = {
        {"lost", HARNESS_VERDICT_VALUE_LOST},
        {"duplicated", HARNESS_VERDICT_VALUE_DUPLICATED},
        {"nonfinite", HARNESS_VERDICT_VALUE_NONFINITE},
        {"value", HARNESS_VERDICT_VALUE_CORRUPTED},
        {"order", HARNESS_VERDICT_VALUE_REORDERED},
        {"members", HARNESS_VERDICT_VALUE_DIVERGED},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].word, word) == 0) {
            return words[i].verdict;
        }
    }
    return HARNESS_VERDICT_NONE;
}

/* "members=", then numbers with commas between; none at all is fine. */
static ddp_status read_members(struct reader *reader)
{
    if (strncmp(reader->at, "members=", 8) != 0) {
        return fail(reader, "expected 'members='");
    }
    reader->at += 8;
    DDP_TRY(ddp_mem_pool_create(&reader->out->pool));
    reader->out->ranks = harness_rank_set_in(ddp_mem_pool_mem(reader->out->pool));
    while (*reader->at != ' ' && *reader->at != '\n' && *reader->at != '\0') {
        uint64_t member = 0;

        DDP_TRY(read_number(reader, HARNESS_WORLD_MAX - 1, &member));
        if (member >= reader->out->member_count) {
            return fail(reader, "there is no such member");
        }
        harness_rank_set_add(&reader->out->ranks, (uint32_t)member);
        reader->at += *reader->at == ',';
    }
    return reader->out->ranks.ranks.is_failed ? DDP_E_NOMEM : DDP_OK;
}

/* The rest of the line, as far as it fits, for people. */
static void read_text(struct reader *reader)
{
    size_t used = 0;

    for (reader->at += *reader->at == ' '; *reader->at != '\n' && *reader->at != '\0';
         reader->at++) {
        char c = *reader->at;

        if (used + 1 < sizeof(reader->out->text)) {
            if (c < ' ' || c > '~') {
                c = '?';
            }
            reader->out->text[used++] = c;
        }
    }
    reader->out->text[used] = '\0';
}

static ddp_status read_result(struct reader *reader)
{
    char word[16];

    if (strncmp(reader->at, "result ", 7) != 0) {
        return fail(reader, "expected 'result'");
    }
    reader->at += 7;
    DDP_TRY(read_word(reader, word, sizeof(word)));
    if (strcmp(word, "measured") == 0) {
        reader->out->is_measured = true;
        return skip(reader, '\n');
    }
    if (strcmp(word, "inconsistent") == 0) {
        DDP_TRY(skip(reader, ' '));
        DDP_TRY(read_word(reader, word, sizeof(word)));
        reader->out->verdict = verdict_of(word);
        if (reader->out->verdict == HARNESS_VERDICT_NONE) {
            return fail(reader, "no such inconsistency");
        }
        DDP_TRY(skip(reader, ' '));
        DDP_TRY(read_members(reader));
    } else if (strcmp(word, "unknown") != 0) {
        return fail(reader, "a result is 'measured', 'unknown' or 'inconsistent'");
    }
    read_text(reader);
    return skip(reader, '\n');
}

/* --- trees ------------------------------------------------------------------------------------ */

static ddp_status add_op(struct harness_tree_map *map, enum harness_tree_node kind, uint32_t count)
{
    struct harness_tree_op *ops =
        ddp_mem_grow(map->mem, map->ops, map->op_count, &map->op_capacity, sizeof(*ops));

    DDP_ASSERT(count <= HARNESS_TREE_MEMBERS_MAX); /* a member, or a number of operands */
    if (ops == NULL) {
        return DDP_E_NOMEM;
    }
    map->ops = ops;
    map->ops[map->op_count++] = (struct harness_tree_op){(uint8_t)kind, (uint8_t)count};
    return DDP_OK;
}

/* Brackets that are open. */
struct nest {
    enum harness_tree_node kind[HARNESS_TREE_MEMBERS_MAX];
    uint32_t operands[HARNESS_TREE_MEMBERS_MAX];
    uint32_t depth;
};

static const char openings[] = {
#define X(id, opening, closing) opening,
    HARNESS_TREE_NODE_TABLE(X)
#undef X
};
static const char closings[] = {
#define X(id, opening, closing) closing,
    HARNESS_TREE_NODE_TABLE(X)
#undef X
};

static ddp_status open_node(struct reader *reader, struct nest *nest, size_t kind)
{
    if (nest->depth == HARNESS_TREE_MEMBERS_MAX) {
        return fail(reader, "too many brackets");
    }
    DDP_ASSERT(kind < HARNESS_TREE_LEAF);
    nest->kind[nest->depth] = (enum harness_tree_node)kind;
    nest->operands[nest->depth++] = 0;
    reader->at++;
    return DDP_OK;
}

/* An operand of the innermost open bracket has ended: more follow, or brackets close. */
static ddp_status end_operand(struct reader *reader, struct nest *nest)
{
    while (nest->depth > 0) {
        uint32_t top = nest->depth - 1;

        nest->operands[top]++;
        if (*reader->at == ' ') {
            reader->at++;
            return DDP_OK;
        }
        if (*reader->at != closings[nest->kind[top]]) {
            return fail(reader, "expected another operand or the bracket's end");
        }
        if (nest->operands[top] < 2) {
            return fail(reader, "a sum has two operands or more");
        }
        reader->at++;
        DDP_TRY(add_op(reader->out, nest->kind[top], nest->operands[top]));
        nest->depth--;
    }
    return DDP_OK;
}

static ddp_status read_tree(struct reader *reader)
{
    struct nest nest = {.depth = 0};
    bool is_seen[HARNESS_TREE_MEMBERS_MAX] = {false};
    uint32_t leaves = 0;

    do {
        const char *opening =
            *reader->at == '\0' ? NULL : memchr(openings, *reader->at, sizeof(openings));
        uint64_t member = 0;

        if (opening != NULL) {
            DDP_TRY(open_node(reader, &nest, (size_t)(opening - openings)));
            continue;
        }
        DDP_TRY(read_number(reader, HARNESS_TREE_MEMBERS_MAX - 1, &member));
        if (member >= reader->out->member_count || is_seen[member]) {
            return fail(reader, "a tree holds every member once");
        }
        is_seen[member] = true;
        leaves++;
        DDP_TRY(add_op(reader->out, HARNESS_TREE_LEAF, (uint32_t)member));
        DDP_TRY(end_operand(reader, &nest));
    } while (nest.depth > 0);
    return leaves == reader->out->member_count ? DDP_OK
                                               : fail(reader, "a tree holds every member once");
}

static ddp_status read_range(struct reader *reader, size_t expected_first)
{
    struct harness_tree_map *out = reader->out;
    struct harness_tree_range range = {.op_first = out->op_count};
    struct harness_tree_range *ranges;
    uint64_t first = 0;
    uint64_t elem_count = 0;

    DDP_TRY(read_number(reader, SIZE_MAX / 16, &first));
    DDP_TRY(skip(reader, ' '));
    DDP_TRY(read_number(reader, SIZE_MAX / 16, &elem_count));
    DDP_TRY(skip(reader, ' '));
    if (first != expected_first || elem_count == 0 || elem_count > out->elem_count - first) {
        return fail(reader, "ranges follow each other and end with the last element");
    }
    DDP_TRY(read_tree(reader));
    DDP_TRY(skip(reader, '\n'));
    range.first = (size_t)first;
    range.elem_count = (size_t)elem_count;
    range.op_count = (uint32_t)(out->op_count - range.op_first);
    DDP_ASSERT(range.op_count > out->member_count && range.op_count < 2 * out->member_count);
    ranges = ddp_mem_grow(out->mem, out->ranges, out->range_count, &out->range_capacity,
                          sizeof(*ranges));
    if (ranges == NULL) {
        return DDP_E_NOMEM;
    }
    out->ranges = ranges;
    out->ranges[out->range_count++] = range;
    return DDP_OK;
}

static ddp_status read_map(struct reader *reader)
{
    struct harness_tree_map *out = reader->out;
    size_t first = 0;

    DDP_TRY(read_head(reader));
    DDP_TRY(read_result(reader));
    if (out->is_measured && (!is_float(out->dtype) || out->member_count < 2 ||
                             out->member_count > HARNESS_TREE_MEMBERS_MAX)) {
        return fail(reader, "sums of 2 to 64 members in f32, f16 or bf16 can be measured");
    }
    while (out->is_measured && first < out->elem_count) {
        DDP_TRY(read_range(reader, first));
        first += out->ranges[out->range_count - 1].elem_count;
    }
    DDP_ASSERT(!out->is_measured || first == out->elem_count);
    return *reader->at == '\0' ? DDP_OK : fail(reader, "nothing more is expected");
}

ddp_status harness_tree_parse(struct ddp_mem *mem, const char *text, struct harness_tree_map *out,
                              struct ddp_err *err)
{
    struct reader reader = {.at = text, .line = 1, .out = out, .err = err};
    ddp_status status;

    *out = (struct harness_tree_map){.mem = mem};
    status = read_map(&reader);
    if (status != DDP_OK) {
        harness_tree_fini(out);
    }
    return status;
}

void harness_tree_fini(struct harness_tree_map *map)
{
    if (map->mem != NULL) {
        ddp_mem_free(map->mem, map->ranges);
        ddp_mem_free(map->mem, map->ops);
        ddp_mem_pool_destroy(map->pool);
    }
    *map = (struct harness_tree_map){0};
}
