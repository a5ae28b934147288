/* What `explain` says of a verdict before it shows any evidence: what happened, how it was judged,
 * and what to look at next. */
#include <string.h>
#include <unistd.h>

#include "harness/report/report.h"

/* The next step, by family. {folder}: of the record; {rank}: the first culprit; {log}: where that
 * rank's output is. */
static const struct {
    enum harness_family family;
    const char *culprit;  /* if a rank is named */
    const char *nameless; /* if none is */
} steps[] = {
    {HARNESS_FAMILY_CRASH,
     "read its log, {log}; a SIGKILL that nobody sent is mostly the kernel's, "
     "for want of "
     "memory: see dmesg",
     "read the ranks' logs in {folder}"},
    {HARNESS_FAMILY_HANG,
     "find what rank {rank} does there: its log is {log}; reproduce it, and take "
     "that "
     "rank's stack while it hangs (gdb -p, py-spy dump)",
     "compare the ranks below: who has not posted what the others wait for?"},
    {HARNESS_FAMILY_SLOW,
     "profile rank {rank} in that phase, beside a rank that is as fast as the others",
     "compare the phases of the ranks in {folder}/trace.txt"},
    {HARNESS_FAMILY_MISMATCH,
     "compare what rank {rank} called with {folder}/program.txt: which branch or setting of that "
     "rank "
     "differs?",
     "compare the ranks' calls in {folder}/trace.txt with {folder}/program.txt"},
    {HARNESS_FAMILY_USAGE, "look at what rank {rank}'s program calls at that place",
     "look at what the program calls at that place"},
    {HARNESS_FAMILY_VALUE,
     "look at what rank {rank} does to these values; {folder}/replay has them, if they were kept",
     "every rank agrees with the others: look at what all of them do to these values"},
    {HARNESS_FAMILY_DATA,
     "look at rank {rank}'s sampler: seed, epoch, rank, world size, shard and batch size",
     "look at the sampler that all ranks share: seed, epoch, world size"},
    {HARNESS_FAMILY_CHECKPOINT,
     "look at what rank {rank} saves and loads: its keys and their prefix",
     "look at the checkpoint's keys and their prefix: {folder}/restore"},
    {HARNESS_FAMILY_LAUNCH,
     "look at how rank {rank} is started: its environment, its log in {folder}",
     "look at how the ranks are started: their environment, their logs in {folder}"},
    {HARNESS_FAMILY_RESOURCE, "look at what rank {rank} uses up: its log is {log}",
     "look at what the ranks use up; ddprove doctor shows the machine's limits"},
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static enum harness_family family_of(const json_t *verdict)
{
    enum harness_verdict parsed;

    return harness_verdict_parse(text_of(verdict, "verdict"), &parsed) == DDP_OK
               ? harness_verdict_family(parsed)
               : HARNESS_FAMILY_NONE;
}

/* The ranks of a launcher write into its output. */
static void add_log(const char *folder, json_int_t rank, struct ddp_text *out)
{
    struct ddp_text own;
    struct ddp_text launcher;

    ddp_text_init(&own, ddp_mem_system());
    ddp_text_init(&launcher, ddp_mem_system());
    ddp_text_add(&own, "%s/rank%" JSON_INTEGER_FORMAT ".log", folder, rank);
    ddp_text_add(&launcher, "%s/launcher.log", folder);
    ddp_text_add(out, "%s",
                 ddp_text_str(access(ddp_text_str(&own), F_OK) != 0 &&
                                      access(ddp_text_str(&launcher), F_OK) == 0
                                  ? &launcher
                                  : &own));
    ddp_text_fini(&own);
    ddp_text_fini(&launcher);
}

/* A text with its marks filled in. */
static void add_filled(const char *text, const char *folder, json_int_t rank, struct ddp_text *out)
{
    static const char folder_mark[] = "{folder}";
    static const char rank_mark[] = "{rank}";
    static const char log_mark[] = "{log}";

    while (*text != '\0') {
        if (strncmp(text, folder_mark, sizeof folder_mark - 1) == 0) {
            ddp_text_add(out, "%s", folder);
            text += sizeof folder_mark - 1;
        } else if (strncmp(text, rank_mark, sizeof rank_mark - 1) == 0) {
            ddp_text_add(out, "%" JSON_INTEGER_FORMAT, rank);
            text += sizeof rank_mark - 1;
        } else if (strncmp(text, log_mark, sizeof log_mark - 1) == 0) {
            add_log(folder, rank, out);
            text += sizeof log_mark - 1;
        } else {
            ddp_text_add_bytes(out, text++, 1);
        }
    }
}

static void add_next_step(const json_t *verdict, struct ddp_text *out)
{
    const json_t *culprits = json_object_get(verdict, "culprit");
    enum harness_family family = family_of(verdict);

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i].family == family) {
            ddp_text_add(out, "    next: ");
            add_filled(json_array_size(culprits) > 0 ? steps[i].culprit : steps[i].nameless,
                       text_of(verdict, "run_dir"), json_integer_value(json_array_get(culprits, 0)),
                       out);
            ddp_text_add(out, "\n");
        }
    }
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void add_judged(const json_t *item, size_t index, struct ddp_text *out)
{
    ddp_text_add(out, "%s%s %" JSON_INTEGER_FORMAT, index == 0 ? "    judged: " : ", ",
                 text_of(item, "oracle"), number_of(item, "count"));
    if (number_of(item, "bitwise") > 0) {
        ddp_text_add(out, " (%" JSON_INTEGER_FORMAT " bit for bit)", number_of(item, "bitwise"));
    }
}

static void add_not_judged(const json_t *item, struct ddp_text *out)
{
    ddp_text_add(out, "    not judged: %s, ", text_of(item, "oracle"));
    if (number_of(item, "count") > 0) {
        ddp_text_add(out, "%" JSON_INTEGER_FORMAT ": ", number_of(item, "count"));
    }
    ddp_text_add(out, "%s\n", text_of(item, "why"));
}

void harness_report_judged(const json_t *verdict, struct ddp_text *out)
{
    const json_t *judged = json_object_get(verdict, "judged");
    const json_t *not_judged = json_object_get(verdict, "not_judged");
    const json_t *item;
    size_t i;

    json_array_foreach(judged, i, item)
    {
        add_judged(item, i, out);
    }
    ddp_text_add(out, json_array_size(judged) > 0 ? "\n" : "");
    json_array_foreach(not_judged, i, item)
    {
        add_not_judged(item, out);
    }
}

void harness_report_headline(const json_t *verdict, struct ddp_text *out)
{
    const char *text = text_of(verdict, "text");
    const char *cell = text_of(verdict, "cell");
    const char *reason = text_of(verdict, "reason");

    if (family_of(verdict) == HARNESS_FAMILY_NONE) {
        ddp_text_add(out, "Nothing was found%s%s\n", text[0] != '\0' ? ": " : "", text);
    } else {
        ddp_text_add(out, "%s: %s\n", text_of(verdict, "verdict"), text);
    }
    ddp_text_add(out, "    %s: %s\n", text_of(verdict, "outcome"),
                 reason[0] != '\0' ? reason : "as the scenario expects");
    ddp_text_add(out, "    run: %s%s%s%s on %s\n", text_of(verdict, "id"),
                 cell[0] != '\0' ? " [" : "", cell, cell[0] != '\0' ? "]" : "",
                 text_of(verdict, "driver"));
    ddp_text_add(out, "    purpose: %s\n", text_of(verdict, "purpose"));
    harness_report_judged(verdict, out);
    add_next_step(verdict, out);
    if (text_of(verdict, "reproduce")[0] != '\0') {
        ddp_text_add(out, "    reproduce: %s\n", text_of(verdict, "reproduce"));
    }
}
