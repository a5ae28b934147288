/* The record, read. Every number is checked against what it counts and every line belongs where it
 * stands, so that a record that was changed is refused, never believed. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/record/parser.h"
#include "harness/trace/line.h"
#include "harness/watch/names.h"

enum { WORLD_MAX = 4096, GROUPS_MAX = 1 << 16 };

static ddp_status int_of(struct record_parser *parser, const char *name, int *out)
{
    int64_t value = 0;

    DDP_TRY(harness_line_find_i64(&parser->line, name, &value));
    *out = (int)value;
    return value >= INT_MIN && value <= INT_MAX ? DDP_OK
                                                : record_refuse(parser, "a number is too large");
}

static ddp_status parse_head(struct record_parser *parser)
{
    struct harness_watch *watch = &parser->out->watch;
    uint64_t world_size = 0;
    uint64_t is_ended = 0;

    if (parser->line.token_count < 2 ||
        strcmp(parser->line.token[0], "ddprove-guest-record") != 0 ||
        strcmp(parser->line.token[1], "2") != 0) {
        return record_refuse(parser, "this is no record of a guest, or of another version");
    }
    DDP_TRY(record_number_of(parser, "world", WORLD_MAX, &world_size));
    DDP_TRY(record_number_of(parser, "ended", 1, &is_ended));
    DDP_TRY(int_of(parser, "exit", &parser->out->exit_code));
    watch->mem = parser->mem;
    watch->world_size = (uint32_t)world_size;
    watch->ranks = ddp_mem_array(parser->mem, watch->world_size, sizeof *watch->ranks);
    parser->line.world_size = watch->world_size;
    parser->out->is_ended = is_ended != 0;
    return watch->ranks != NULL ? DDP_OK : DDP_E_NOMEM;
}

/* key=3,0,...: as many as there can be faults. */
static ddp_status parse_of_faults(struct record_parser *parser, const char *key, uint64_t most,
                                  const char *wanted, uint64_t out[GUEST_FAULTS_MAX])
{
    const char *value = harness_line_find(&parser->line, key);

    for (uint32_t f = 0; f < GUEST_FAULTS_MAX; f++) {
        char *end = NULL;

        out[f] = value != NULL ? strtoull(value, &end, 10) : 0;
        if (value == NULL || end == value || out[f] > most ||
            *end != (f + 1 < GUEST_FAULTS_MAX ? ',' : '\0')) {
            return record_refuse(parser, wanted);
        }
        value = end + 1;
    }
    return DDP_OK;
}

static ddp_status parse_fired(struct record_parser *parser, struct harness_watch_rank *rank)
{
    uint64_t fired[GUEST_FAULTS_MAX] = {0};
    uint64_t unable[GUEST_FAULTS_MAX] = {0};

    DDP_TRY(
        parse_of_faults(parser, "fired", UINT32_MAX, "fired= wants a count for each fault", fired));
    /* A record of an earlier version does not say. */
    if (harness_line_find(&parser->line, "unable") != NULL) {
        DDP_TRY(parse_of_faults(parser, "unable", GUEST_UNABLE_COUNT - 1,
                                "unable= wants a reason for each fault", unable));
    }
    for (uint32_t f = 0; f < GUEST_FAULTS_MAX; f++) {
        rank->fired[f] = (uint32_t)fired[f];
        rank->unable[f] = (uint8_t)unable[f];
    }
    return harness_line_find_u64(&parser->line, "fired_ns", &rank->fired_ns);
}

static ddp_status parse_rank(struct record_parser *parser)
{
    const char *state = harness_line_find(&parser->line, "state");
    struct harness_watch_rank *rank;
    uint64_t number = 0;
    uint64_t flag = 0;

    DDP_TRY(record_subject_of(parser, parser->out->watch.world_size, &number));
    if (number != parser->ranks_read) {
        return record_refuse(parser, "ranks are numbered one after the other");
    }
    rank = &parser->out->watch.ranks[parser->ranks_read++];
    if (state == NULL || !harness_watch_state_find(state, &rank->state)) {
        return record_refuse(parser, "state= wants the name of a state");
    }
    DDP_TRY(int_of(parser, "code", &rank->code));
    DDP_TRY(record_number_of(parser, "attached", 1, &flag));
    rank->is_attached = flag != 0;
    DDP_TRY(record_number_of(parser, "detached", 1, &flag));
    rank->is_detached = flag != 0;
    DDP_TRY(harness_line_find_u64(&parser->line, "steps", &rank->step_count));
    DDP_TRY(harness_line_find_u64(&parser->line, "lost", &rank->lost_count));
    DDP_TRY(harness_line_find_u64(&parser->line, "lost_comms", &rank->lost_comms));
    return parse_fired(parser, rank);
}

static ddp_status parse_group(struct record_parser *parser)
{
    struct harness_watch *watch = &parser->out->watch;
    struct harness_watch_group *groups = ddp_mem_grow(
        parser->mem, watch->groups, watch->group_count, &watch->group_capacity, sizeof *groups);
    struct harness_watch_group group = {0};
    uint64_t number = 0;

    if (groups == NULL) {
        return DDP_E_NOMEM;
    }
    watch->groups = groups;
    DDP_TRY(record_subject_of(parser, GROUPS_MAX, &number));
    DDP_TRY(harness_line_find_u64(&parser->line, "key", &group.key));
    DDP_TRY(harness_line_find_u64(&parser->line, "size", &group.size));
    if (number != watch->group_count || parser->line.tail == NULL ||
        strlen(parser->line.tail) >= sizeof group.name) {
        return record_refuse(parser,
                             "communicators are numbered one after the other, and have a name");
    }
    memcpy(group.name, parser->line.tail, strlen(parser->line.tail) + 1);
    group.members = ddp_mem_array(parser->mem, watch->world_size, sizeof *group.members);
    if (group.members == NULL) {
        return DDP_E_NOMEM;
    }
    watch->groups[watch->group_count++] = group;
    return DDP_OK;
}

/* The member that a line is about. */
static ddp_status find_member(struct record_parser *parser, struct harness_watch_member **out)
{
    struct harness_watch *watch = &parser->out->watch;
    uint64_t group = 0;
    uint64_t rank = 0;

    DDP_TRY(record_subject_of(parser, watch->group_count, &group));
    DDP_TRY(harness_line_find_u64(&parser->line, "rank", &rank));
    if (rank >= watch->world_size) {
        return record_refuse(parser, "there is no such rank");
    }
    *out = &watch->groups[group].members[rank];
    return DDP_OK;
}

static ddp_status parse_member(struct record_parser *parser)
{
    struct harness_watch_member *member = NULL;
    uint64_t index = 0;
    uint64_t is_freed = 0;

    DDP_TRY(find_member(parser, &member));
    DDP_ASSERT(member != NULL);
    DDP_TRY(record_number_of(parser, "index", UINT32_MAX, &index));
    DDP_TRY(record_number_of(parser, "freed", 1, &is_freed));
    DDP_TRY(harness_line_find_u64(&parser->line, "posted", &member->posted));
    DDP_TRY(harness_line_find_u64(&parser->line, "from", &member->kept_seq));
    DDP_TRY(harness_line_find_u64(&parser->line, "calls", &parser->calls));
    if (member->is_there || member->kept_seq == 0 || member->kept_seq - 1 > member->posted ||
        parser->calls > member->posted - (member->kept_seq - 1)) {
        return record_refuse(parser,
                             "a rank is a member once, and its calls count from 1 to the last "
                             "one posted");
    }
    parser->member = member;
    member->is_there = true;
    member->rank = (uint32_t)index;
    member->is_freed = is_freed != 0;
    return DDP_OK;
}

static ddp_status parse_op(struct record_parser *parser, uint64_t *out)
{
    const char *kind = harness_line_find(&parser->line, "kind");
    const char *dtype = harness_line_find(&parser->line, "dtype");
    const char *redop = harness_line_find(&parser->line, "redop");
    uint32_t kind_number = 0;
    uint32_t dtype_number = 0;
    uint32_t redop_number = 0;
    uint64_t root = 0;

    if (kind == NULL || !harness_watch_kind_find(kind, &kind_number) || dtype == NULL ||
        !harness_watch_dtype_find(dtype, &dtype_number) || redop == NULL ||
        !harness_watch_redop_find(redop, &redop_number)) {
        return record_refuse(parser, "kind=, dtype= or redop= is missing or unknown");
    }
    DDP_TRY(record_number_of(parser, "root", UINT32_MAX, &root));
    *out = guest_op_pack(kind_number, dtype_number, redop_number, (uint32_t)root);
    return DDP_OK;
}

static ddp_status parse_call(struct record_parser *parser)
{
    struct harness_watch_member *member = NULL;
    struct harness_watch_call call = {0};
    struct harness_watch_call *calls;
    uint64_t seq = 0;
    uint64_t step = 0;
    uint64_t micro = 0;
    uint64_t phase = 0;
    uint64_t is_done = 0;

    DDP_TRY(find_member(parser, &member));
    DDP_ASSERT(member != NULL);
    DDP_TRY(parse_op(parser, &call.op));
    DDP_TRY(harness_line_find_u64(&parser->line, "seq", &seq));
    DDP_TRY(harness_line_find_u64(&parser->line, "count", &call.elem_count));
    DDP_TRY(record_parse_bucket(parser, &call));
    DDP_TRY(record_number_of(parser, "step", UINT32_MAX, &step));
    DDP_TRY(record_number_of(parser, "micro", UINT16_MAX, &micro));
    DDP_TRY(record_number_of(parser, "phase", UINT8_MAX, &phase));
    DDP_TRY(record_number_of(parser, "done", 1, &is_done));
    DDP_TRY(harness_line_find_u64(&parser->line, "time", &call.time_ns));
    if (member != parser->member || seq != member->kept_seq + member->call_count ||
        member->call_count == parser->calls) {
        return record_refuse(parser, "calls of a member follow each other, as many as it has");
    }
    calls = ddp_mem_grow(parser->mem, member->calls, member->call_count, &member->call_capacity,
                         sizeof *calls);
    if (calls == NULL) {
        return DDP_E_NOMEM;
    }
    call.step = (uint32_t)step;
    call.micro = (uint16_t)micro;
    call.phase = (uint8_t)phase;
    call.is_done = is_done != 0;
    member->calls = calls;
    member->calls[member->call_count++] = call;
    return DDP_OK;
}

static ddp_status parse_oracle(struct record_parser *parser, enum harness_oracle_id *out)
{
    const char *name = harness_line_find(&parser->line, "oracle");

    return name != NULL && harness_oracle_parse(name, out) == DDP_OK
               ? DDP_OK
               : record_refuse(parser, "oracle= wants the name of one");
}

/* How many lines about oracles follow. */
static ddp_status parse_oracles(struct record_parser *parser)
{
    if (parser->has_oracles) {
        return record_refuse(parser, "oracles are counted once");
    }
    parser->has_oracles = true;
    DDP_TRY(record_number_of(parser, "judged", HARNESS_ORACLE_COUNT, &parser->judged));
    return record_number_of(parser, "unjudged", HARNESS_WATCH_LACKS_MAX, &parser->unjudged);
}

/* An oracle judged so much. */
static ddp_status parse_judged(struct record_parser *parser)
{
    struct harness_watch_account account = {0};
    enum harness_oracle_id oracle = HARNESS_ORACLE_NONE;

    DDP_TRY(parse_oracle(parser, &oracle));
    DDP_TRY(harness_line_find_u64(&parser->line, "count", &account.judged));
    DDP_TRY(harness_line_find_u64(&parser->line, "bitwise", &account.bitwise));
    DDP_TRY(harness_line_find_u64(&parser->line, "bound", &account.bound));
    if (account.judged == 0 || account.bitwise > account.judged ||
        account.bound > account.judged - account.bitwise || parser->judged == 0 ||
        oracle <= parser->last_judged) {
        return record_refuse(parser, "oracles have their order, and count is the largest number");
    }
    parser->judged--;
    parser->last_judged = oracle;
    parser->out->accounts.of[oracle] = account;
    return DDP_OK;
}

static ddp_status parse_unjudged(struct record_parser *parser)
{
    struct harness_watch_accounts *accounts = &parser->out->accounts;
    enum harness_oracle_id oracle = HARNESS_ORACLE_NONE;
    uint64_t number = 0;
    uint64_t count = 0;

    DDP_TRY(record_subject_of(parser, HARNESS_WATCH_LACKS_MAX, &number));
    DDP_TRY(parse_oracle(parser, &oracle));
    DDP_TRY(harness_line_find_u64(&parser->line, "count", &count));
    if (number != accounts->lack_count || parser->unjudged == 0) {
        return record_refuse(parser, "what was not judged is numbered, and counted before");
    }
    parser->unjudged--;
    if (parser->line.tail == NULL || strlen(parser->line.tail) >= HARNESS_WATCH_WHY_BYTES) {
        return record_refuse(parser, "text= wants the reason, in few words");
    }
    harness_watch_add_lack(accounts, oracle, count, parser->line.tail);
    return DDP_OK;
}

static ddp_status parse_about(struct record_parser *parser)
{
    const char *kind = harness_line_find(&parser->line, "kind");
    uint32_t number = 0;

    memset(&parser->about, 0, sizeof parser->about);
    if (kind == NULL || parser->line.tail == NULL ||
        strlen(parser->line.tail) >= sizeof parser->about.comm ||
        (strcmp(kind, "-") != 0 && !harness_watch_kind_find(kind, &number))) {
        return record_refuse(parser, "about wants kind= and the communicator's name");
    }
    parser->about.kind = strcmp(kind, "-") == 0 ? 0 : 1 + (int32_t)number;
    memcpy(parser->about.comm, parser->line.tail, strlen(parser->line.tail) + 1);
    parser->has_about = true;
    return DDP_OK;
}

static ddp_status parse_finding(struct record_parser *parser)
{
    struct harness_finding finding;

    if (!parser->has_about) {
        return record_refuse(parser, "a finding without the line about its call");
    }
    DDP_TRY(harness_line_finding(&parser->line, parser->mem, &finding));
    finding.guest = parser->about;
    parser->has_about = false;
    harness_findings_add(&parser->out->findings, &finding);
    return parser->out->findings.is_failed ? DDP_E_NOMEM : DDP_OK;
}

/* before: all that stands in front of the line. */
static ddp_status parse_end(struct record_parser *parser, const char *text, size_t before)
{
    uint64_t digest = 0;

    DDP_TRY(harness_line_find_hex(&parser->line, "digest", &digest));
    if (parser->line.token_count != 2) {
        return record_refuse(parser, "the end is a digest, and nothing else");
    }
    parser->is_ended = true;
    return digest == ddp_hash_bytes(text, before, 0)
               ? DDP_OK
               : ddp_err_set(parser->line.err, DDP_E_CORRUPT,
                             "%u:1: the record was changed after it was written",
                             parser->line.line);
}

/* What has to follow the lines before; NULL: anything may. */
static const char *lacking(const struct record_parser *parser, const char *word)
{
    if (parser->ranks_read < parser->out->watch.world_size && strcmp(word, "rank") != 0) {
        return "the line of a rank is missing";
    }
    if (parser->member != NULL && parser->member->call_count < parser->calls &&
        strcmp(word, "call") != 0) {
        return "a call of the member above is missing";
    }
    if ((parser->judged > 0 && strcmp(word, "judged") != 0) ||
        (parser->judged == 0 && parser->unjudged > 0 && strcmp(word, "unjudged") != 0)) {
        return "an oracle's line is missing";
    }
    if (!parser->has_oracles && (strcmp(word, "about") == 0 || strcmp(word, "end") == 0)) {
        return "the line that counts oracles is missing";
    }
    if (parser->has_oracles && (strcmp(word, "group") == 0 || strcmp(word, "member") == 0 ||
                                strcmp(word, "name") == 0 || strcmp(word, "list") == 0)) {
        return "communicators come before the oracles";
    }
    if (parser->has_about &&
        (parser->line.token_count < 3 || strcmp(parser->line.token[2], "diagnosis") != 0)) {
        return "the finding that the line above is about is missing";
    }
    return NULL;
}

static ddp_status parse_line(struct record_parser *parser, const char *text, size_t start,
                             size_t end)
{
    static const struct {
        const char *word;
        ddp_status (*parse)(struct record_parser *parser);
    } rows[] = {{"rank", parse_rank},         {"name", record_parse_name},
                {"list", record_parse_list},  {"group", parse_group},
                {"member", parse_member},     {"call", parse_call},
                {"oracles", parse_oracles},   {"judged", parse_judged},
                {"unjudged", parse_unjudged}, {"about", parse_about}};
    const char *word;

    DDP_TRY(harness_line_tokenise(&parser->line, text + start, end - start));
    if (parser->line.token_count == 0 || parser->is_ended) {
        return record_refuse(parser, "a line that does not belong here");
    }
    if (start == 0) {
        return parse_head(parser);
    }
    word = parser->line.token[0];
    if (lacking(parser, word) != NULL) {
        return record_refuse(parser, lacking(parser, word));
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(word, rows[i].word) == 0) {
            return rows[i].parse(parser);
        }
    }
    if (strcmp(word, "end") == 0) {
        return parse_end(parser, text, start);
    }
    return parser->line.token_count > 2 && strcmp(parser->line.token[2], "diagnosis") == 0
               ? parse_finding(parser)
               : record_refuse(parser, "an unknown line");
}

ddp_status harness_watch_record_parse(struct ddp_mem *mem, const char *text, size_t size_bytes,
                                      struct harness_watch_record *out, struct ddp_err *err)
{
    struct record_parser parser = {.line = {.err = err}, .mem = mem, .out = out};
    ddp_status status;
    size_t start = 0;

    memset(out, 0, sizeof *out);
    harness_findings_init(&out->findings, mem);
    status = harness_line_open(&parser.line, mem, size_bytes);
    while (status == DDP_OK && start < size_bytes) {
        const char *newline = memchr(text + start, '\n', size_bytes - start);

        parser.line.line++;
        status = newline != NULL
                     ? parse_line(&parser, text, start, (size_t)(newline - text))
                     : ddp_err_set(err, DDP_E_PARSE, "%u:1: the line has no end", parser.line.line);
        start = newline != NULL ? (size_t)(newline - text) + 1 : size_bytes;
    }
    if (status == DDP_OK && !parser.is_ended) {
        status = ddp_err_set(err, DDP_E_PARSE, "%u:1: the record has no end", parser.line.line);
    }
    return status;
}
