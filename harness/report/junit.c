/* JUnit XML. Schema as Jenkins, GitLab and GitHub actions read it. */
#include <stdlib.h>
#include <string.h>

#include "harness/report/report.h"

/* Text with XML's five special characters escaped and control characters left out. */
static void add_escaped(struct ddp_text *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        switch (*c) {
        case '&':
            ddp_text_add(out, "&amp;");
            break;
        case '<':
            ddp_text_add(out, "&lt;");
            break;
        case '>':
            ddp_text_add(out, "&gt;");
            break;
        case '"':
            ddp_text_add(out, "&quot;");
            break;
        default:
            if ((unsigned char)*c >= 0x20 || *c == '\n') {
                ddp_text_add_bytes(out, c, 1);
            }
            break;
        }
    }
}

static const char *text_of(const json_t *verdict, const char *key)
{
    const char *text = json_string_value(json_object_get(verdict, key));

    return text != NULL ? text : "";
}

static double seconds_of(const json_t *verdict)
{
    return json_number_value(json_object_get(verdict, "wall_ms")) / 1000.0;
}

static void add_property(struct ddp_text *out, const char *name, const json_t *value)
{
    char *dumped = NULL;

    if (value == NULL || json_is_null(value)) {
        return;
    }
    dumped = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    ddp_text_add(out, "      <property name=\"%s\" value=\"", name);
    add_escaped(out, dumped != NULL ? dumped : json_string_value(value));
    ddp_text_add(out, "\"/>\n");
    free(dumped);
}

static void add_result(struct ddp_text *out, const json_t *verdict)
{
    static const char *const elements[] = {
        [HARNESS_OUTCOME_FAIL] = "failure",
        [HARNESS_OUTCOME_INCONCLUSIVE] = "failure",
        [HARNESS_OUTCOME_ERROR] = "error",
        [HARNESS_OUTCOME_SKIP] = "skipped",
    };
    enum harness_outcome outcome = harness_report_outcome(verdict);

    if (outcome == HARNESS_OUTCOME_PASS) {
        return;
    }
    ddp_text_add(out, "    <%s message=\"%s ", elements[outcome], harness_outcome_name(outcome));
    add_escaped(out, text_of(verdict, "verdict"));
    ddp_text_add(out, ": ");
    add_escaped(out, text_of(verdict, "reason"));
    ddp_text_add(out, "\">");
    add_escaped(out, text_of(verdict, "text"));
    if (text_of(verdict, "reproduce")[0] != '\0') {
        ddp_text_add(out, "\nreproduce: ");
        add_escaped(out, text_of(verdict, "reproduce"));
    }
    ddp_text_add(out, "</%s>\n", elements[outcome]);
}

static void add_case(struct ddp_text *out, const json_t *verdict)
{
    static const char *const properties[] = {
        "driver", "seed",       "verdict",        "culprit",  "victims",   "op",
        "step",   "phase",      "oracle",         "mode",     "detect_ms", "attribute_ms",
        "judged", "not_judged", "counterexample", "reproduce"};

    ddp_text_add(out, "    <testcase classname=\"ddprove.%s\" name=\"", text_of(verdict, "driver"));
    add_escaped(out, text_of(verdict, "id"));
    if (text_of(verdict, "cell")[0] != '\0') {
        ddp_text_add(out, "[");
        add_escaped(out, text_of(verdict, "cell"));
        ddp_text_add(out, "]");
    }
    ddp_text_add(out, "\" time=\"%.6f\">\n    <properties>\n", seconds_of(verdict));
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        add_property(out, properties[i], json_object_get(verdict, properties[i]));
    }
    ddp_text_add(out, "    </properties>\n");
    add_result(out, verdict);
    ddp_text_add(out, "    </testcase>\n");
}

void harness_report_junit(const json_t *verdicts, struct ddp_text *out)
{
    struct harness_report_counts counts;
    const json_t *verdict;
    double seconds = 0;
    size_t i;

    memset(&counts, 0, sizeof counts);
    json_array_foreach(verdicts, i, verdict)
    {
        harness_report_count(&counts, verdict);
        seconds += seconds_of(verdict);
    }
    ddp_text_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    ddp_text_add(out,
                 "  <testsuite name=\"ddprove\" tests=\"%zu\" failures=\"%u\" errors=\"%u\" "
                 "skipped=\"%u\" time=\"%.6f\">\n",
                 json_array_size(verdicts), counts.fail + counts.inconclusive, counts.error,
                 counts.skip, seconds);
    json_array_foreach(verdicts, i, verdict)
    {
        add_case(out, verdict);
    }
    ddp_text_add(out, "  </testsuite>\n</testsuites>\n");
}
