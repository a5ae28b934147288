/* The record of a guest's job as text: what is written is read again, and nothing else is. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "tests/ct.h"
#include "tests/unit/watch/made_record.h"

enum { LINES_MAX = 64 };

static ddp_status parse(struct made_record *made, const char *text, size_t size_bytes,
                        struct harness_watch_record *out, struct ddp_err *err)
{
    memset(err, 0, sizeof *err);
    return harness_watch_record_parse(made->mem, text, size_bytes, out, err);
}

static void check_rank(const struct harness_watch_rank *a, const struct harness_watch_rank *b)
{
    CT_CHECK_EQ_U64(a->state, b->state);
    CT_CHECK_EQ_I64(a->code, b->code);
    CT_CHECK(a->is_attached == b->is_attached && a->is_detached == b->is_detached);
    CT_CHECK_EQ_U64(a->step_count, b->step_count);
    CT_CHECK_EQ_U64(a->lost_count, b->lost_count);
    CT_CHECK_EQ_U64(a->lost_comms, b->lost_comms);
    CT_CHECK_BYTES(a->fired, b->fired, sizeof a->fired);
    CT_CHECK_BYTES(a->unable, b->unable, sizeof a->unable);
    CT_CHECK_EQ_U64(a->fired_ns, b->fired_ns);
}

static void check_member(const struct harness_watch_member *a, const struct harness_watch_member *b)
{
    CT_CHECK(a->is_there == b->is_there);
    if (!a->is_there) {
        return;
    }
    CT_CHECK(a->is_freed == b->is_freed);
    CT_CHECK_EQ_U64(a->rank, b->rank);
    CT_CHECK_EQ_U64(a->posted, b->posted);
    CT_CHECK_EQ_U64(a->kept_seq, b->kept_seq);
    CT_REQUIRE(a->call_count == b->call_count);
    for (size_t i = 0; i < a->call_count; i++) {
        const struct harness_watch_call *x = &a->calls[i];
        const struct harness_watch_call *y = &b->calls[i];

        CT_CHECK(x->op == y->op && x->elem_count == y->elem_count && x->bucket == y->bucket &&
                 x->time_ns == y->time_ns && x->step == y->step && x->micro == y->micro &&
                 x->phase == y->phase && x->is_done == y->is_done && x->model == y->model);
        CT_REQUIRE((x->list == NULL) == (y->list == NULL));
        for (uint32_t k = 0; x->list != NULL && k < x->list->count; k++) {
            CT_CHECK_STR(x->list->texts[k], y->list->texts[k]);
            CT_CHECK_EQ_U64(x->list->params[k], y->list->params[k]);
        }
    }
}

static void check_finding(const struct harness_finding *a, const struct harness_finding *b)
{
    char one[HARNESS_RANKS_TEXT_BYTES];
    char other[HARNESS_RANKS_TEXT_BYTES];

    CT_CHECK(a->verdict == b->verdict && a->oracle == b->oracle && a->mode == b->mode);
    CT_CHECK_STR(harness_rank_set_text(&a->culprits, one),
                 harness_rank_set_text(&b->culprits, other));
    CT_CHECK_STR(harness_rank_set_text(&a->victims, one),
                 harness_rank_set_text(&b->victims, other));
    CT_CHECK(a->op.is_set == b->op.is_set && a->op.seq == b->op.seq &&
             a->op.bucket == b->op.bucket && a->op.elem_count == b->op.elem_count);
    CT_CHECK_EQ_I64(a->guest.kind, b->guest.kind);
    CT_CHECK_STR(a->guest.comm, b->guest.comm);
    CT_CHECK(a->step == b->step && a->micro == b->micro && a->phase == b->phase);
    CT_CHECK_EQ_I64(a->detect_ns, b->detect_ns);
    CT_REQUIRE(a->params.count == b->params.count);
    for (uint32_t i = 0; i < a->params.count; i++) {
        CT_CHECK_EQ_U64(harness_list_at(&a->params, i), harness_list_at(&b->params, i));
    }
    CT_CHECK_STR(a->text, b->text);
}

/* Every field of every line. */
CT_TEST(record, is_read_as_it_was_written)
{
    struct made_record made;
    struct harness_watch_record read;
    struct ddp_text again;
    struct ddp_err err;
    const char *text;
    size_t size_bytes = 0;

    made_rich(&made);
    text = made_text(&made, &size_bytes);
    CT_REQUIRE_OK(parse(&made, text, size_bytes, &read, &err));
    CT_CHECK(read.is_ended && read.exit_code == 128 + SIGKILL);
    CT_CHECK_EQ_U64(read.watch.world_size, MADE_RICH_WORLD);
    for (uint32_t r = 0; r < MADE_RICH_WORLD; r++) {
        check_rank(&made.record.watch.ranks[r], &read.watch.ranks[r]);
    }
    CT_REQUIRE(read.watch.group_count == made.record.watch.group_count);
    for (size_t g = 0; g < read.watch.group_count; g++) {
        const struct harness_watch_group *wrote = &made.record.watch.groups[g];

        CT_CHECK_EQ_U64(read.watch.groups[g].key, wrote->key);
        CT_CHECK_EQ_U64(read.watch.groups[g].size, wrote->size);
        CT_CHECK_STR(read.watch.groups[g].name, wrote->name);
        for (uint32_t r = 0; r < MADE_RICH_WORLD; r++) {
            check_member(&wrote->members[r], &read.watch.groups[g].members[r]);
        }
    }
    CT_REQUIRE(read.findings.count == made.record.findings.count);
    for (size_t i = 0; i < read.findings.count; i++) {
        check_finding(&made.record.findings.items[i], &read.findings.items[i]);
    }
    ddp_text_init(&again, made.mem);
    harness_watch_record_print(&read, &again);
    CT_CHECK_STR(ddp_text_str(&again), text);
    made_close(&made);
}

/* Of a rank that reported too fast, not all calls are known. */
CT_TEST(record, a_member_may_lack_calls)
{
    struct made_record made;
    struct harness_watch_record read;
    struct ddp_err err;
    const char *text;
    size_t size_bytes = 0;

    made_open(&made, 2);
    (void)made_group(&made, "world", 3);
    made.record.watch.groups[0].members[1].posted = 900;
    text = made_text(&made, &size_bytes);
    CT_REQUIRE_OK(parse(&made, text, size_bytes, &read, &err));
    check_member(&made.record.watch.groups[0].members[1], &read.watch.groups[0].members[1]);
    made_close(&made);
}

/* Each state, kind, type and reduction has a name of its own, which is read as the same number. */
CT_TEST(record, every_name_is_read)
{
    struct made_record made;
    struct harness_watch_record read;
    struct ddp_err err;
    const char *text;
    size_t size_bytes = 0;
    size_t group;

    made_open(&made, 5);
    group = made_group(&made, "world", DDPROVE_GUEST_KIND_COUNT);
    for (uint32_t i = 0; i < DDPROVE_GUEST_KIND_COUNT; i++) {
        made.record.watch.groups[group].members[0].calls[i].op = guest_op_pack(
            i, i < DDPROVE_GUEST_DTYPE_COUNT ? i : 0, i < DDPROVE_GUEST_REDOP_COUNT ? i : 0, i);
    }
    for (uint32_t r = 0; r < 5; r++) {
        made.record.watch.ranks[r].state = (enum harness_watch_state)r;
    }
    text = made_text(&made, &size_bytes);
    CT_REQUIRE_OK(parse(&made, text, size_bytes, &read, &err));
    check_member(&made.record.watch.groups[group].members[0], &read.watch.groups[0].members[0]);
    for (uint32_t r = 0; r < 5; r++) {
        CT_CHECK_EQ_U64(read.watch.ranks[r].state, r);
    }
    made_close(&made);
}

CT_TEST(record, keeps_the_last_calls_of_a_member)
{
    enum { CALLS = HARNESS_WATCH_RECORD_CALLS_MAX + 7 };
    struct made_record made;
    struct harness_watch_record read;
    struct ddp_err err;
    const struct harness_watch_member *member;
    const char *text;
    size_t size_bytes = 0;

    made_open(&made, 1);
    (void)made_group(&made, "world", CALLS);
    text = made_text(&made, &size_bytes);
    CT_REQUIRE_OK(parse(&made, text, size_bytes, &read, &err));
    member = &read.watch.groups[0].members[0];
    CT_CHECK_EQ_U64(member->posted, CALLS);
    CT_CHECK_EQ_U64(member->call_count, HARNESS_WATCH_RECORD_CALLS_MAX);
    CT_CHECK_EQ_U64(member->kept_seq, 8);
    CT_CHECK(harness_watch_call_at(member, 7) == NULL);
    CT_CHECK_EQ_U64(harness_watch_call_at(member, CALLS)->step, CALLS - 1);
    made_close(&made);
}

/* --- damages
 * ------------------------------------------------------------------------------------------------------
 */

struct cut_line {
    const char *text;
    size_t size_bytes; /* with its newline */
};

static size_t cut(const char *text, struct cut_line out[LINES_MAX])
{
    size_t count = 0;

    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        CT_CHECK(count < LINES_MAX);
        out[count++] = (struct cut_line){at, (size_t)(strchr(at, '\n') + 1 - at)};
    }
    return count;
}

/* The digest as it would be, had the text been written so; nothing is done to a text without end.
 */
static void seal(struct ddp_text *text)
{
    static const char word[] = "end digest=";
    char *end = NULL;

    for (char *at = text->data; (at = strstr(at, word)) != NULL; at++) {
        end = at;
    }
    if (end != NULL) {
        char digest[17];

        (void)snprintf(digest, sizeof digest, "%016" PRIx64,
                       ddp_hash_bytes(text->data, (uint64_t)(end - text->data), 0));
        memcpy(end + sizeof word - 1, digest, 16);
    }
}

enum way { DELETED, DOUBLED, SWAPPED, ALTERED, WAY_COUNT };

static void damage(const struct cut_line *lines, size_t count, size_t at, enum way way,
                   struct ddp_text *out)
{
    for (size_t i = 0; i < count; i++) {
        const size_t from = way == SWAPPED && i == at       ? i + 1
                            : way == SWAPPED && i == at + 1 ? at
                                                            : i;
        const struct cut_line *line = &lines[from];

        if (i != at || way == SWAPPED) {
            ddp_text_add_bytes(out, line->text, line->size_bytes);
        } else if (way == DOUBLED) {
            ddp_text_add_bytes(out, line->text, line->size_bytes);
            ddp_text_add_bytes(out, line->text, line->size_bytes);
        } else if (way == ALTERED) {
            ddp_text_add_bytes(out, line->text, line->size_bytes - 2);
            ddp_text_add(out, "%c\n", line->text[line->size_bytes - 2] == '1' ? '2' : '1');
        }
    }
}

/* A refusal says where, in one line. */
static void check_refused(struct made_record *made, const char *text, size_t size_bytes,
                          bool is_sealed, const char *what)
{
    struct harness_watch_record read;
    struct ddp_err err;
    unsigned line = 0;
    unsigned column = 0;
    const ddp_status status = parse(made, text, size_bytes, &read, &err);

    if (status != DDP_E_PARSE && (status != DDP_E_CORRUPT || is_sealed)) {
        CT_FAIL("%s: status %s", what, ddp_status_text(status));
    } else if (sscanf(err.text, "%u:%u: ", &line, &column) != 2 || strchr(err.text, '\n') != NULL) {
        CT_FAIL("%s: \"%s\"", what, err.text);
    }
}

/* Lines deleted, doubled, swapped with the next, altered: never believed. Also when the digest is
 * made right again: each line belongs where it stands. */
CT_TEST(record, damaged_lines_are_refused)
{
    struct made_record made;
    struct cut_line lines[LINES_MAX];
    size_t size_bytes = 0;
    size_t count;

    made_rich(&made);
    count = cut(made_text(&made, &size_bytes), lines);
    CT_CHECK(count > 20);
    for (size_t i = 0; i < count; i++) {
        for (unsigned way = 0; way < WAY_COUNT; way++) {
            char what[128];
            struct ddp_text text;

            if (way == SWAPPED && i + 1 == count) {
                continue;
            }
            ddp_text_init(&text, made.mem);
            damage(lines, count, i, (enum way)way, &text);
            (void)snprintf(what, sizeof what, "way %u of \"%.*s\"", way, 60, lines[i].text);
            check_refused(&made, ddp_text_str(&text), text.size_bytes, false, what);
            if (way != ALTERED) {
                seal(&text);
                check_refused(&made, ddp_text_str(&text), text.size_bytes, true, what);
            }
        }
    }
    made_close(&made);
}

/* A number that could be, in its place: only the digest tells. */
CT_TEST(record, the_digest_alone_notices)
{
    struct made_record made;
    struct harness_watch_record read;
    struct ddp_err err;
    const char *wrote;
    char *text;
    size_t size_bytes = 0;

    made_rich(&made);
    wrote = made_text(&made, &size_bytes);
    text = ddp_mem_strdup(made.mem, wrote);
    strstr(text, "count=10")[7] = '1';
    CT_CHECK_STATUS(parse(&made, text, size_bytes, &read, &err), DDP_E_CORRUPT);
    made_close(&made);
}

/* A file that was not written to its end, or in which one bit is another. */
CT_TEST(record, every_byte_counts)
{
    struct made_record made;
    const char *text;
    char *copy;
    size_t size_bytes = 0;

    made_rich(&made);
    text = made_text(&made, &size_bytes);
    copy = ddp_mem_array(made.mem, size_bytes, 1);
    for (size_t i = 0; i < size_bytes; i++) {
        struct made_record once; /* its memory does not pile up */

        made_open(&once, 0);
        memcpy(copy, text, size_bytes);
        check_refused(&once, copy, i, false, "cut");
        copy[i] = (char)(copy[i] ^ 1);
        check_refused(&once, copy, size_bytes, false, "a bit");
        made_close(&once);
    }
    made_close(&made);
}

/* Numbers and names that nothing can have, by somebody who makes the digest right. */
static const struct {
    const char *find, *put, *error;
} edits[] = {
    {"record 2 ", "record 1 ", "1:1: this is no record of a guest, or of another version"},
    {"guest-record", "trace", "1:1: this is no record of a guest, or of another version"},
    {"world=3 ", "world=4097 ", "1:1: a number is too large"},
    {"world=3 ", "world=-3 ", "1:1: world=<number> is missing"},
    {"world=3 ", "world=2 ",
     "4:1: the number behind the first word is not there, or too "
     "large"},
    {"world=3 ", "world=4 ", "5:1: the line of a rank is missing"},
    {"ended=1", "ended=2", "1:1: a number is too large"},
    {"exit=137", "exit=x", "1:1: exit=<number> is missing"},
    {"exit=137", "exit=4294967296", "1:1: a number is too large"},
    {"rank 1 ", "rank 0 ", "3:1: ranks are numbered one after the other"},
    {"rank 1 ", "rank ", "3:1: the number behind the first word is not there, or too large"},
    {"state=signaled", "state=asleep", "4:1: state= wants the name of a state"},
    {"state=signaled", "stat=signaled", "4:1: state= wants the name of a state"},
    {"code=-1", "code=-4294967296", "2:1: a number is too large"},
    {"attached=1", "attached=2", "2:1: a number is too large"},
    {"detached=1", "detached=7", "2:1: a number is too large"},
    {"steps=3", "steps=3.5", "2:1: steps=<number> is missing"},
    {"lost=5", "lost=", "3:1: lost=<number> is missing"},
    {"lost_comms=6", "lost_comms=18446744073709551616", "3:1: lost_comms=<number> is missing"},
    {"fired=1,", "fired=", "3:1: fired= wants a count for each fault"},
    {"fired=1,", "fired=-1,", "3:1: fired= wants a count for each fault"},
    {",4294967295 ", ",4294967296 ", "3:1: fired= wants a count for each fault"},
    {",4294967295 ", ",1,1 ", "3:1: fired= wants a count for each fault"},
    {"unable=0,3,", "unable=0,99,", "3:1: unable= wants a reason for each fault"},
    {"fired_ns=123456789", "fired_ns=", "3:1: fired_ns=<number> is missing"},
    {"group 1 ", "group 2 ",
     ": communicators are numbered one after the other, and have a "
     "name"},
    {"name 1 ", "name 0 ", "6:1: names are numbered one after the other, before what they are of"},
    {"text=fc1.weight", "text=", "5:1: names are numbered"},
    {"text=a name, with spaces", "text=fc1.weight", "6:1: a name is told once"},
    {"list 0 ", "list 1 ", "7:1: lists are numbered one after the other, before communicators"},
    {"names=1,0", "names=1,2", "7:1: names= wants numbers of names"},
    {"names=1,0", "names=1,,0", "7:1: names= wants numbers of names"},
    {" list=0", " list=1", ": there is no such list"},
    {" model=2", " model=4294967296", ": a number is too large"},
    {"key=100", "key=", "8:1: key=<number> is missing"},
    {"size=3 text=world", "size=3", "8:1: communicators are numbered"},
    {"text=world", "text=a name that is longer than any name can be", "8:1: communicators are"},
    {"rank=0 index=0", "rank=3 index=0", "9:1: there is no such rank"},
    {"index=0", "index=4294967296", "9:1: a number is too large"},
    {"freed=0", "freed=2", "9:1: a number is too large"},
    {"calls=3", "calls=2", "12:1: calls of a member follow each other, as many as it has"},
    {"calls=3", "calls=4", "9:1: a rank is a member once, and its calls count from 1"},
    {"calls=3", "calls=", "9:1: calls=<number> is missing"},
    {"posted=3 from=1 calls=3", "posted=4 from=1 calls=4",
     "13:1: a call of the member above is missing"},
    {"posted=3", "posted=2", "9:1: a rank is a member once, and its calls count from 1"},
    {"from=1", "from=0", "9:1: a rank is a member once, and its calls count from 1"},
    {"from=1", "from=5", "9:1: a rank is a member once, and its calls count from 1"},
    {"from=1 calls=3", "from=2 calls=2", "10:1: calls of a member follow each other"},
    {"call 0 rank=0 seq=1", "call 0 rank=0 seq=2", "10:1: calls of a member follow each other"},
    {"call 0 rank=0 seq=1", "call 0 rank=1 seq=1", "10:1: calls of a member follow each other"},
    {"call 0 rank=0 seq=1", "call 1 rank=0 seq=1", "10:1: the number behind the first word"},
    {"kind=reduce ", "kind=swap ", ": kind=, dtype= or redop= is missing or unknown"},
    {"dtype=bf16", "dtype=f8", ": kind=, dtype= or redop= is missing or unknown"},
    {"redop=max", "redop=?", ": kind=, dtype= or redop= is missing or unknown"},
    {"root=7", "root=4294967296", ": a number is too large"},
    {"bucket=4", "bucket=x", ": bucket=<number> is missing"},
    {"step=4294967295", "step=4294967296", ": a number is too large"},
    {"micro=65535", "micro=65536", ": a number is too large"},
    {"phase=255", "phase=256", ": a number is too large"},
    {"done=0", "done=2", ": a number is too large"},
    {"about kind=all_reduce", "about kind=swap",
     ": about wants kind= and the communicator's "
     "name"},
    {"oracles judged=2", "oracles judged=3", ": an oracle's line is missing"},
    {"oracles judged=2", "oracles judged=1", ": an oracle's line is missing"},
    {"oracles judged=2", "oracles judged=99", ": a number is too large"},
    {"unjudged=2", "unjudged=1", ": "},
    {"unjudged=2", "unjudged=3", ": an oracle's line is missing"},
    {"unjudged=2", "unjudged=", ": unjudged=<number> is missing"},
    {"unjudged 1", "unjudged 2", ": what was not judged is numbered, and counted before"},
    {"judged oracle=program", "judged oracle=nobody", ": oracle= wants the name of one"},
    {"judged oracle=program", "judged", ": oracle= wants the name of one"},
    {"count=91 ", "count=0 ", ": oracles have their order, and count is the largest number"},
    {"count=91 ", "count= ", ": count=<number> is missing"},
    {"bitwise=7 ", "bitwise=92 ", ": oracles have their order, and count is the largest number"},
    {"bound=80", "bound=85", ": oracles have their order, and count is the largest number"},
    {"bound=80", "bound=x", ": bound=<number> is missing"},
    {"judged oracle=ledger", "judged oracle=program", ": oracles have their order"},
    {"unjudged 0 oracle=update", "unjudged 0 oracle=", ": oracle= wants the name of one"},
    {"count=5 text=hidden", "count=5", ": text= wants the reason, in few words"},
    {"text=hidden",
     "text=a reason that goes on and on, with more words than any reason that is told "
     "will ever need, or so one hopes",
     ": text= wants the reason, in few words"},
    {"about kind=- text=", "about kind=-", ": about wants kind= and the communicator's name"},
    {"verdict=CRASH.SIGNALED", "verdict=CRASH.OFTEN", ": expected verdict=, oracle=, mode="},
    {"culprit=2", "culprit=3", ":"},
    {"victim=0", "victim=9", ":"},
    {" h diagnosis", " h finish", ": the finding that the line above is about is missing"},
    {"about kind=-", "around kind=-", ": an unknown line"},
    {"end digest", "end of digest", ": the end is a digest, and nothing else"},
};

CT_TEST(record, sealed_nonsense_is_refused)
{
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        struct made_record made;
        struct harness_watch_record read;
        struct ddp_text text;
        struct ddp_err err;
        const char *wrote;
        const char *at;
        size_t size_bytes = 0;

        made_rich(&made);
        wrote = made_text(&made, &size_bytes);
        at = strstr(wrote, edits[i].find);
        if (at == NULL) {
            CT_FAIL("%s is not in the record:\n%s", edits[i].find, wrote);
            made_close(&made);
            return;
        }
        ddp_text_init(&text, made.mem);
        ddp_text_add_bytes(&text, wrote, (size_t)(at - wrote));
        ddp_text_add(&text, "%s%s", edits[i].put, at + strlen(edits[i].find));
        seal(&text);
        CT_CHECK_STATUS(parse(&made, ddp_text_str(&text), text.size_bytes, &read, &err),
                        DDP_E_PARSE);
        if (strstr(err.text, edits[i].error) == NULL) {
            CT_FAIL("%s -> %s: \"%s\", not \"%s\"", edits[i].find, edits[i].put, err.text,
                    edits[i].error);
        }
        made_close(&made);
    }
}

/* Nothing at all, and what is no text. */
CT_TEST(record, other_files_are_refused)
{
    static const char zeros[64];
    struct made_record made;
    const char *text;
    char *more;
    size_t size_bytes = 0;

    made_rich(&made);
    check_refused(&made, "", 0, true, "nothing");
    check_refused(&made, "\n", 1, true, "an empty line");
    check_refused(&made, zeros, sizeof zeros, true, "zeros");
    text = made_text(&made, &size_bytes);
    more = ddp_mem_array(made.mem, 2 * size_bytes, 1);
    memcpy(more, text, size_bytes);
    memcpy(more + size_bytes, text, size_bytes);
    check_refused(&made, more, 2 * size_bytes, true, "two records");
    check_refused(&made, more, size_bytes + 1, true, "a byte behind the end");
    made_close(&made);
}
