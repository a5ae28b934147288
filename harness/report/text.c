/* Verdicts for people: one line each, with reason and evidence if it is not PASS. */
#include "harness/report/report.h"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static enum harness_verdict verdict_of(const json_t *verdict)
{
    enum harness_verdict parsed;

    return harness_verdict_parse(text_of(verdict, "verdict"), &parsed) == DDP_OK
               ? parsed
               : HARNESS_VERDICT_NONE;
}

static const char *color_of(enum harness_outcome outcome)
{
    switch (outcome) {
    case HARNESS_OUTCOME_PASS:
        return "\033[32m";
    case HARNESS_OUTCOME_SKIP:
    case HARNESS_OUTCOME_INCONCLUSIVE:
        return "\033[33m";
    case HARNESS_OUTCOME_FAIL:
    case HARNESS_OUTCOME_ERROR:
        break;
    }
    return "\033[31m";
}

/* The first of them, and how many more there are; the JSON has all. */
static void add_list(struct ddp_text *out, const char *before, const json_t *list)
{
    const json_t *item;
    size_t i;

    if (json_array_size(list) == 0) {
        return;
    }
    ddp_text_add(out, "%s", before);
    json_array_foreach(list, i, item)
    {
        if (i == HARNESS_NAMED_MAX) {
            ddp_text_add(out, " and %zu more", json_array_size(list) - i);
            break;
        }
        if (json_is_integer(item)) {
            ddp_text_add(out, "%s%lld", i > 0 ? "," : "", (long long)json_integer_value(item));
        } else if (json_is_string(item)) {
            ddp_text_add(out, "%s%s", i > 0 ? " " : "", json_string_value(item));
        }
    }
}

static void add_integer(struct ddp_text *out, const char *before, const json_t *value)
{
    if (json_is_integer(value)) {
        ddp_text_add(out, "%s%lld", before, (long long)json_integer_value(value));
    }
}

/* From the death, the stop or the last sign of life, and from the fault that led there. */
static void add_latency(const json_t *verdict, struct ddp_text *out)
{
    const json_t *detect = json_object_get(verdict, "detect_ms");
    const json_t *attribute = json_object_get(verdict, "attribute_ms");
    double detect_ms = json_number_value(detect);
    double attribute_ms = json_number_value(attribute);

    if (!json_is_number(detect)) {
        return;
    }
    ddp_text_add(out, "  named in %.2f ms", detect_ms);
    if (json_is_number(attribute) && attribute_ms - detect_ms >= 1.0) {
        ddp_text_add(out, " (%.2f ms after the first fault there)", attribute_ms);
    }
}

/* "rank 1 step 5 backward bucket 1 (fc1.bias fc1.weight)" */
static void add_place(struct ddp_text *out, const json_t *verdict)
{
    const json_t *op = json_object_get(verdict, "op");

    add_list(out, "  rank ", json_object_get(verdict, "culprit"));
    add_integer(out, "  step ", json_object_get(verdict, "step"));
    if (text_of(verdict, "phase")[0] != '\0') {
        ddp_text_add(out, " %s", text_of(verdict, "phase"));
    }
    add_integer(out, "  bucket ", json_object_get(op, "bucket"));
    if (json_array_size(json_object_get(op, "params")) > 0) {
        add_list(out, " (", json_object_get(op, "params"));
        ddp_text_add(out, ")");
    }
    add_latency(verdict, out);
}

static void add_said(struct ddp_text *out, const json_t *said)
{
    if (json_is_object(said)) {
        ddp_text_add(out, "    rank %d said: %s\n",
                     (int)json_integer_value(json_object_get(said, "rank")), text_of(said, "text"));
    }
}

void harness_report_line(const json_t *verdict, unsigned cells, bool is_color, struct ddp_text *out)
{
    enum harness_outcome outcome = harness_report_outcome(verdict);
    const char *cell = text_of(verdict, "cell");

    ddp_text_add(out, "%s%-12s%s %-4s %s", is_color ? color_of(outcome) : "",
                 harness_outcome_name(outcome), is_color ? "\033[0m" : "",
                 text_of(verdict, "driver"), text_of(verdict, "id"));
    if (cells > 1) {
        ddp_text_add(out, " (%u cells)", cells);
    } else if (cell[0] != '\0') {
        ddp_text_add(out, " [%s]", cell);
    }
    if (verdict_of(verdict) != HARNESS_VERDICT_NONE) {
        ddp_text_add(out, "  %s", text_of(verdict, "verdict"));
        if (cells == 1) {
            add_place(out, verdict);
        }
    }
    ddp_text_add(out, "\n");
    if (outcome != HARNESS_OUTCOME_PASS) {
        ddp_text_add(out, "    why: %s\n", text_of(verdict, "reason"));
        if (text_of(verdict, "text")[0] != '\0') {
            ddp_text_add(out, "    evidence: %s\n", text_of(verdict, "text"));
        }
        add_said(out, json_object_get(verdict, "said"));
        add_said(out, json_object_get(json_object_get(verdict, "restore"), "said"));
        if (outcome != HARNESS_OUTCOME_SKIP && text_of(verdict, "run_dir")[0] != '\0') {
            ddp_text_add(out, "    record: %s\n", text_of(verdict, "run_dir"));
        }
        if (text_of(verdict, "reproduce")[0] != '\0') {
            ddp_text_add(out, "    reproduce: %s\n", text_of(verdict, "reproduce"));
        }
    }
}

void harness_report_summary(const struct harness_report_counts *counts, struct ddp_text *out)
{
    const char *errors = counts->error == 1 ? "error" : "errors";

    if (counts->inconclusive > 0) {
        ddp_text_add(out, "%u inconclusive, %u %s\n", counts->inconclusive, counts->error, errors);
    } else if (counts->error > 0) {
        ddp_text_add(out, "%u %s\n", counts->error, errors);
    }
    ddp_text_add(out, "%u passed, %u failed", counts->pass,
                 counts->fail + counts->inconclusive + counts->error);
    if (counts->skip > 0) {
        ddp_text_add(out, ", %u skipped", counts->skip);
    }
    ddp_text_add(out, "\n");
}

static void add_cause(const json_t *cause, struct ddp_text *out)
{
    if (json_is_object(cause)) {
        ddp_text_add(out, "        follows from finding %lld: %s\n",
                     (long long)json_integer_value(json_object_get(cause, "finding")) + 1,
                     text_of(cause, "because"));
    }
}

void harness_report_findings(const json_t *verdict, struct ddp_text *out)
{
    const json_t *findings = json_object_get(verdict, "findings");
    const json_t *finding;
    size_t i;

    json_array_foreach(findings, i, finding)
    {
        ddp_text_add(out, "    finding %zu: %s by %s (%s)", i + 1, text_of(finding, "verdict"),
                     text_of(finding, "oracle"), text_of(finding, "mode"));
        add_place(out, finding);
        ddp_text_add(out, "\n        %s\n", text_of(finding, "text"));
        add_cause(json_object_get(finding, "follows_from"), out);
    }
}
