/* Renderings of verdicts. */
#include <string.h>

#include "harness/report/report.h"
#include "tests/ct.h"

static json_t *make(const char *outcome, const char *reason)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:[i], s:i, s:s, "
                     "s:{s:i, s:[s,s]}, s:f, s:f, s:f}",
                     "id", "crash.x", "cell", "a=<b>", "driver", "proc", "outcome", outcome,
                     "verdict", "CRASH.SIGNALED", "reason", reason, "reproduce",
                     "ddprove run \"x\" & more", "text", "rank 1 died", "culprit", 1, "step", 5,
                     "phase", "backward", "op", "bucket", 1, "params", "fc1.bias", "fc1.weight",
                     "detect_ms", 1.25, "attribute_ms", 152.0, "wall_ms", 12.5);
}

/* One line names verdict, rank, step, bucket, parameters and latency; PASS needs no more. */
CT_TEST(report, line)
{
    json_t *verdict = make("PASS", "");
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_line(verdict, 1, false, &text);
    CT_CHECK_STR(ddp_text_str(&text),
                 "PASS         proc crash.x [a=<b>]  CRASH.SIGNALED  rank 1  step 5 backward  "
                 "bucket 1 (fc1.bias fc1.weight)  named in 1.25 ms (152.00 ms after "
                 "the first fault there)\n");
    ddp_text_fini(&text);
    json_decref(verdict);
}

/* A line names eight of many ranks or parameters, and counts the others. */
CT_TEST(report, line_is_short)
{
    json_t *verdict = make("PASS", "");
    json_t *culprits = json_object_get(verdict, "culprit");
    struct ddp_text text;

    for (int rank = 2; rank <= 9; rank++) {
        CT_CHECK(json_array_append_new(culprits, json_integer(rank)) == 0);
    }
    ddp_text_init(&text, ddp_mem_system());
    harness_report_line(verdict, 1, false, &text);
    CT_CHECK(strstr(ddp_text_str(&text), "  rank 1,2,3,4,5,6,7,8 and 1 more  step 5") != NULL);
    ddp_text_fini(&text);
    json_decref(verdict);
}

/* A failure ends with the reason, the evidence and the command that reproduces it. */
CT_TEST(report, failure_says_why_and_how_to_repeat)
{
    json_t *verdict = make("FAIL", "culprit 2, expected 1");
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_line(verdict, 1, false, &text);
    CT_CHECK(strstr(ddp_text_str(&text), "why: culprit 2, expected 1\n") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "evidence: rank 1 died\n") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "reproduce: ddprove run \"x\" & more\n") != NULL);
    ddp_text_fini(&text);
    json_decref(verdict);
}

/* JUnit escapes what XML cannot hold, and counts what failed. */
CT_TEST(report, junit_is_escaped)
{
    json_t *verdicts = json_pack("[o, o]", make("FAIL", "a < b & \"c\""), make("PASS", ""));
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_junit(verdicts, &text);
    CT_CHECK(strstr(ddp_text_str(&text), "tests=\"2\" failures=\"1\" errors=\"0\"") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "a &lt; b &amp; &quot;c&quot;") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "name=\"crash.x[a=&lt;b&gt;]\"") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "run \"x\"") == NULL);
    ddp_text_fini(&text);
    json_decref(verdicts);
}

/* The summary is as bad as its worst member; nothing at all is an ERROR, not a success. */
CT_TEST(report, worst_outcome)
{
    struct harness_report_counts counts = {0};
    json_t *unreadable = json_pack("{s:s}", "outcome", "MAYBE");

    CT_CHECK_EQ_U64(harness_report_worst(&counts), HARNESS_OUTCOME_ERROR);
    counts.skip = 1;
    CT_CHECK_EQ_U64(harness_report_worst(&counts), HARNESS_OUTCOME_SKIP);
    counts.pass = 1;
    CT_CHECK_EQ_U64(harness_report_worst(&counts), HARNESS_OUTCOME_PASS);
    counts.inconclusive = 1;
    CT_CHECK_EQ_U64(harness_report_worst(&counts), HARNESS_OUTCOME_INCONCLUSIVE);
    counts.fail = 1;
    CT_CHECK_EQ_U64(harness_report_worst(&counts), HARNESS_OUTCOME_FAIL);
    harness_report_count(&counts, unreadable);
    CT_CHECK_EQ_U64(harness_report_worst(&counts), HARNESS_OUTCOME_ERROR);
    json_decref(unreadable);
}

/* A line that stands for several cells names no place: theirs differ. */
CT_TEST(report, cells_have_no_place)
{
    json_t *verdict = make("PASS", "");
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_line(verdict, 3, false, &text);
    CT_CHECK_STR(ddp_text_str(&text), "PASS         proc crash.x (3 cells)  CRASH.SIGNALED\n");
    ddp_text_fini(&text);
    json_decref(verdict);
}

/* What was skipped says why, and has nothing to reproduce. */
CT_TEST(report, skip_has_nothing_to_repeat)
{
    json_t *verdict = make("SKIP", "no such driver");
    json_t *verdicts = json_pack("[O]", verdict);
    struct ddp_text text;

    CT_REQUIRE(json_object_set_new(verdict, "reproduce", json_null()) == 0);
    ddp_text_init(&text, ddp_mem_system());
    harness_report_line(verdict, 1, false, &text);
    harness_report_junit(verdicts, &text);
    CT_CHECK(strstr(ddp_text_str(&text), "why: no such driver\n") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "<skipped message=") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "reproduce") == NULL);
    ddp_text_fini(&text);
    json_decref(verdicts);
    json_decref(verdict);
}
