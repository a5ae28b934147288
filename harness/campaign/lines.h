/* Results files: a head that says whose results they are, then a line for each answer, each with a
 * checksum, so that what a killed shard left can be told from what it finished. Internal to
 * harness/campaign. */
#ifndef HARNESS_CAMPAIGN_LINES_H
#define HARNESS_CAMPAIGN_LINES_H

#include "harness/campaign/campaign.h"

enum { HARNESS_CAMPAIGN_LINE_MAX = 512 };

/* Whose results: all that an answer depends on. */
struct harness_campaign_head {
    char name[64];
    uint64_t hash, seed, case_count;
    char drivers[16]; /* "sim", "proc" or "sim+proc" */
    uint32_t shard, shard_count;
};

void harness_campaign_head_of(const struct harness_campaign_config *config,
                              struct harness_campaign_head *out);
/* The same campaign, whatever the shard. */
bool harness_campaign_head_is_same(const struct harness_campaign_head *a,
                                   const struct harness_campaign_head *b);
/* How many drivers a case runs on. */
unsigned harness_campaign_head_drivers(const struct harness_campaign_head *head);
/* With the newline. A shard_count of 0: of merged results. */
void harness_campaign_head_print(const struct harness_campaign_head *head, struct ddp_text *out);
void harness_campaign_line_print(const struct harness_campaign_result *result,
                                 struct ddp_text *out);

/* A file's answers, in the order of their lines. */
struct harness_campaign_lines {
    struct ddp_mem *mem; /* a pool */
    struct harness_campaign_result *items;
    size_t count, capacity;
};
/* Read a file behind what lines has. *out_good_bytes: up to where it is whole; the rest was being
 * written when the shard ended. Errors: E_NOT_FOUND, E_IO, E_PARSE (its head, or a damaged line
 * that is not the last), E_NOMEM. */
DDP_MUST_USE ddp_status harness_campaign_lines_read(struct harness_campaign_lines *lines,
                                                    const char *path,
                                                    struct harness_campaign_head *out_head,
                                                    size_t *out_good_bytes, struct ddp_err *err);
/* Put them in the order of cases and drivers and drop repetitions. Errors: E_STATE: two answers to
 * the same question. */
DDP_MUST_USE ddp_status harness_campaign_lines_sort(struct harness_campaign_lines *lines,
                                                    struct ddp_err *err);

#endif
