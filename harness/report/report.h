/* Renderings of verdict.json objects: text, JSON summary, JUnit. No logic of their own. */
#ifndef HARNESS_REPORT_REPORT_H
#define HARNESS_REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "ddpcore/base/text.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_report_counts {
    unsigned pass, fail, inconclusive, error, skip;
};
void harness_report_count(struct harness_report_counts *counts, const json_t *verdict);
enum harness_outcome harness_report_outcome(const json_t *verdict);
/* Whether it is what a cell writes, or any other JSON. */
bool harness_report_is_verdict(const json_t *verdict);
/* Worst of several; SKIP only if all skipped; ERROR if there are none. */
enum harness_outcome harness_report_worst(const struct harness_report_counts *counts);

/* One line: outcome, id, cells, driver, verdict, culprit, place, latency. For what is not PASS also
 * the reason and the command that reproduces it. cells: how many cells the line stands for. */
void harness_report_line(const json_t *verdict, unsigned cells, bool is_color,
                         struct ddp_text *out);
/* "24 passed, 0 failed, 1 skipped": and inconclusive, errors if any. */
void harness_report_summary(const struct harness_report_counts *counts, struct ddp_text *out);
/* What happened, how that was judged, what to look at next, how to reproduce it. */
void harness_report_headline(const json_t *verdict, struct ddp_text *out);
/* Of a guest: which oracles ran and what was not judged, one line each; nothing otherwise. */
void harness_report_judged(const json_t *verdict, struct ddp_text *out);
/* Every finding, with its evidence. */
void harness_report_findings(const json_t *verdict, struct ddp_text *out);

/* {schema, counts, scenarios[]}; borrows the verdicts' references. Owned by the caller. */
json_t *harness_report_json(const json_t *verdicts);
/* JUnit XML as CI systems read it: one testcase a cell. */
void harness_report_junit(const json_t *verdicts, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
