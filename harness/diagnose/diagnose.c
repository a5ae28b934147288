#include "harness/diagnose/diagnose.h"

#include <stdio.h>
#include <string.h>

#include "harness/diagnose/internal.h"
#include "harness/dumps/read.h"

ddp_status harness_diagnosis_create(struct harness_diagnosis **out)
{
    struct harness_diagnosis *made = ddp_mem_array(ddp_mem_system(), 1, sizeof *made);
    ddp_status status;

    if (made == NULL) {
        return DDP_E_NOMEM;
    }
    status = ddp_mem_pool_create(&made->pool);
    if (status != DDP_OK) {
        ddp_mem_free(ddp_mem_system(), made);
        return status;
    }
    harness_diag_evidence_init(&made->evidence, ddp_mem_pool_mem(made->pool));
    *out = made;
    return DDP_OK;
}

void harness_diagnosis_destroy(struct harness_diagnosis *diagnosis)
{
    if (diagnosis != NULL) {
        ddp_mem_pool_destroy(diagnosis->pool);
        ddp_mem_free(ddp_mem_system(), diagnosis);
    }
}

/* An error is one line, whatever of the file it quotes. */
static void make_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = ' ';
        }
    }
}

ddp_status harness_diagnosis_read(struct harness_diagnosis *diagnosis, const char *path,
                                  const char *data, size_t size_bytes, uint64_t written_ns,
                                  struct ddp_err *err)
{
    ddp_status status =
        harness_diag_read(&diagnosis->evidence, path, data, size_bytes, written_ns, err);

    if (status == DDP_OK) {
        diagnosis->file_count++;
        return DDP_OK;
    }
    if (err != NULL) {
        make_one_line(err->text);
    }
    return ddp_err_wrap(err, status, "%s", path);
}

enum harness_outcome harness_diagnosis_conclude(struct harness_diagnosis *diagnosis)
{
    harness_diag_settle(&diagnosis->evidence);
    harness_diag_conclude(&diagnosis->evidence, &diagnosis->answer);
    if (diagnosis->evidence.is_failed) {
        diagnosis->answer.outcome = HARNESS_OUTCOME_ERROR;
    }
    return diagnosis->answer.outcome;
}

static const char *sure_name(enum harness_diag_sure sure)
{
    return sure == HARNESS_DIAG_CERTAIN  ? "certain"
           : sure == HARNESS_DIAG_LIKELY ? "likely"
                                         : "possible";
}

static void print_ranks(struct ddp_text *out, const char *label, const struct harness_rank_set *set)
{
    char text[HARNESS_RANKS_TEXT_BYTES];

    if (!harness_rank_set_is_empty(set)) {
        ddp_text_add(out, "  %-9s %s\n", label, harness_rank_set_text(set, text));
    }
}

static void print_finding(const struct harness_diag_finding *finding, struct ddp_text *out)
{
    ddp_text_add(out, "%s: %s\n", harness_verdict_name(finding->verdict), finding->what);
    print_ranks(out, "culprit", &finding->culprits);
    print_ranks(out, "suspects", &finding->suspects);
    print_ranks(out, "victims", &finding->victims);
    ddp_text_add(out, "  %-9s %s%s%s\n", "sure", sure_name(finding->sure),
                 finding->why[0] != '\0' ? ": " : "", finding->why);
    for (size_t i = 0; i < finding->alternative_count; i++) {
        ddp_text_add(out, "  %-9s %s: %s\n", i == 0 ? "or" : "",
                     harness_verdict_name(finding->alternatives[i]),
                     harness_verdict_meaning(finding->alternatives[i]));
    }
    for (size_t i = 0; i < finding->line_count; i++) {
        ddp_text_add(out, "  %-9s %s\n", i == 0 ? "evidence" : "", finding->lines[i]);
    }
}

/* How much was read. */
static void print_summary(const struct harness_diagnosis *diagnosis, struct ddp_text *out)
{
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    ddp_text_add(out, "%s: %zu file%s, about ranks %s\n",
                 harness_outcome_name(diagnosis->answer.outcome), diagnosis->file_count,
                 diagnosis->file_count == 1 ? "" : "s",
                 harness_rank_set_text(&diagnosis->evidence.named, ranks));
}

void harness_diagnosis_print(const struct harness_diagnosis *diagnosis, struct ddp_text *out)
{
    const struct harness_diag_answer *answer = &diagnosis->answer;

    print_summary(diagnosis, out);
    for (size_t i = 0; i < answer->finding_count; i++) {
        print_finding(&answer->findings[i], out);
    }
    if (answer->outcome == HARNESS_OUTCOME_PASS) {
        ddp_text_add(out, "nothing is wrong in what was recorded: all members of each group have "
                          "posted the same calls\n");
    }
    for (size_t i = 0; i < answer->unknown_count; i++) {
        ddp_text_add(out, "  %-9s %s\n", i == 0 ? "not known" : "", answer->unknown[i]);
    }
}

static json_t *ranks_json(const struct harness_rank_set *set)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < harness_rank_set_count(set); i++) {
        (void)json_array_append_new(list, json_integer(harness_rank_set_at(set, i)));
    }
    return list;
}

static json_t *texts_json(const char *const *texts, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        json_t *text = json_string(texts[i]);

        (void)json_array_append_new(list, text != NULL ? text : json_string("?"));
    }
    return list;
}

static json_t *call_json(const struct harness_diag_call *call)
{
    if (call->kind == NULL) {
        return json_null();
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s}", "kind", call->kind, "counts",
                     call->counts, "dtype", call->dtype, "reduction", call->redop, "root",
                     (json_int_t)call->root, "site", call->site, "file",
                     call->place.file != NULL ? call->place.file : "");
}

static json_t *finding_json(const struct harness_diag_evidence *evidence,
                            const struct harness_diag_finding *finding)
{
    json_t *alternatives = json_array();
    json_t *op = json_null();

    for (size_t i = 0; i < finding->alternative_count; i++) {
        (void)json_array_append_new(alternatives,
                                    json_string(harness_verdict_name(finding->alternatives[i])));
    }
    if (finding->group != SIZE_MAX) {
        op = json_pack("{s:s, s:I, s:o, s:o}", "group",
                       harness_diag_group_name(&evidence->groups[finding->group]), "seq",
                       (json_int_t)finding->seq, "expected", call_json(&finding->expected),
                       "posted", call_json(&finding->posted));
    }
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:s, s:s, s:o}", "verdict",
                     harness_verdict_name(finding->verdict), "alternatives", alternatives, "sure",
                     sure_name(finding->sure), "culprit", ranks_json(&finding->culprits),
                     "suspects", ranks_json(&finding->suspects), "victims",
                     ranks_json(&finding->victims), "op", op, "what", finding->what, "why",
                     finding->why, "evidence", texts_json(finding->lines, finding->line_count));
}

json_t *harness_diagnosis_json(const struct harness_diagnosis *diagnosis)
{
    const struct harness_diag_answer *answer = &diagnosis->answer;
    bool has_any = answer->finding_count > 0;
    struct harness_rank_set none = {0};
    json_t *findings = json_array();

    for (size_t i = 0; i < answer->finding_count; i++) {
        (void)json_array_append_new(findings,
                                    finding_json(&diagnosis->evidence, &answer->findings[i]));
    }
    return json_pack(
        "{s:i, s:s, s:s, s:o, s:o, s:o, s:I}", "schema", 1, "outcome",
        harness_outcome_name(answer->outcome), "verdict",
        harness_verdict_name(has_any ? answer->findings[0].verdict : HARNESS_VERDICT_NONE),
        "culprit", ranks_json(has_any ? &answer->findings[0].culprits : &none), "findings",
        findings, "unknown", texts_json(answer->unknown, answer->unknown_count), "files",
        (json_int_t)diagnosis->file_count);
}
