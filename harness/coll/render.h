/* Renderings of what the lab found: text, pictures, JSON. */
#ifndef HARNESS_COLL_RENDER_H
#define HARNESS_COLL_RENDER_H

#include <jansson.h>

#include "harness/coll/coll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table, counterexamples and costs. */
void harness_coll_print(const struct harness_coll_report *report, struct ddp_text *out);
/* Steps and sums of a case, as text or SVG. Errors: of emission, with why; E_NOMEM. */
DDP_MUST_USE ddp_status harness_coll_print_picture(struct harness_coll_source *source,
                                                   const struct harness_coll_case *test,
                                                   bool is_svg, struct ddp_text *out,
                                                   struct ddp_err *err);
/* The picture of the first counterexample that has one; nothing if none has. As text only if it is
 * not too wide. The same errors. */
DDP_MUST_USE ddp_status harness_coll_print_failure(struct harness_coll_source *source,
                                                   const struct harness_coll_report *report,
                                                   bool is_svg, struct ddp_text *out,
                                                   struct ddp_err *err);
/* The report, schema ddprove.coll/1; NULL: no memory. Owned by the caller. */
json_t *harness_coll_json(const struct harness_coll_report *report);
/* A verdict for each property, as harness/report renders them. */
json_t *harness_coll_verdicts(const struct harness_coll_report *report);

#ifdef __cplusplus
}
#endif
#endif
