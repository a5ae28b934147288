/* A verdict in one line: of a PASS what was found, of anything else its signature, which is the
 * same for cases that fail in the same way. Internal to harness/campaign, and shrinking's. */
#ifndef HARNESS_CAMPAIGN_SIGNATURE_H
#define HARNESS_CAMPAIGN_SIGNATURE_H

#include <jansson.h>

#include "harness/campaign/campaign.h"

/* verdict: the object of verdict.json. */
void harness_campaign_signature(const struct harness_plan *plan, const json_t *verdict,
                                struct harness_campaign_result *out);
/* The harness itself failed, or what was drawn is left out: its message, with a # for each number.
 */
void harness_campaign_signature_error(const char *text, bool is_left_out,
                                      struct harness_campaign_result *out);

#endif
