/* Counts and the JSON summary. */
#include <string.h>

#include "harness/report/report.h"

enum harness_outcome harness_report_outcome(const json_t *verdict)
{
    const char *name = json_string_value(json_object_get(verdict, "outcome"));
    enum harness_outcome outcome = HARNESS_OUTCOME_ERROR;

    if (name == NULL || harness_outcome_parse(name, &outcome) != DDP_OK) {
        return HARNESS_OUTCOME_ERROR;
    }
    return outcome;
}

bool harness_report_is_verdict(const json_t *verdict)
{
    const char *outcome = json_string_value(json_object_get(verdict, "outcome"));
    const char *name = json_string_value(json_object_get(verdict, "verdict"));
    enum harness_outcome parsed_outcome;
    enum harness_verdict parsed;

    return outcome != NULL && name != NULL &&
           harness_outcome_parse(outcome, &parsed_outcome) == DDP_OK &&
           harness_verdict_parse(name, &parsed) == DDP_OK;
}

void harness_report_count(struct harness_report_counts *counts, const json_t *verdict)
{
    switch (harness_report_outcome(verdict)) {
    case HARNESS_OUTCOME_PASS:
        counts->pass++;
        break;
    case HARNESS_OUTCOME_FAIL:
        counts->fail++;
        break;
    case HARNESS_OUTCOME_INCONCLUSIVE:
        counts->inconclusive++;
        break;
    case HARNESS_OUTCOME_ERROR:
        counts->error++;
        break;
    case HARNESS_OUTCOME_SKIP:
        counts->skip++;
        break;
    }
}

enum harness_outcome harness_report_worst(const struct harness_report_counts *counts)
{
    if (counts->error > 0) {
        return HARNESS_OUTCOME_ERROR;
    }
    if (counts->fail > 0) {
        return HARNESS_OUTCOME_FAIL;
    }
    if (counts->inconclusive > 0) {
        return HARNESS_OUTCOME_INCONCLUSIVE;
    }
    if (counts->pass > 0) {
        return HARNESS_OUTCOME_PASS;
    }
    /* A run of nothing proved nothing. */
    return counts->skip > 0 ? HARNESS_OUTCOME_SKIP : HARNESS_OUTCOME_ERROR;
}

json_t *harness_report_json(const json_t *verdicts)
{
    struct harness_report_counts counts;
    json_t *scenarios = json_array();
    json_t *verdict;
    size_t i;

    memset(&counts, 0, sizeof counts);
    json_array_foreach(verdicts, i, verdict)
    {
        harness_report_count(&counts, verdict);
        (void)json_array_append(scenarios, verdict);
    }
    return json_pack("{s:s, s:{s:i, s:i, s:i, s:i, s:i, s:i}, s:s, s:o}", "schema",
                     "ddprove.report/1", "counts", "total", (int)json_array_size(verdicts), "pass",
                     (int)counts.pass, "fail", (int)counts.fail, "inconclusive",
                     (int)counts.inconclusive, "error", (int)counts.error, "skip", (int)counts.skip,
                     "outcome", harness_outcome_name(harness_report_worst(&counts)), "scenarios",
                     scenarios);
}
