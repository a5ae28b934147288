/* What is said of files, for people. */
#include <inttypes.h>
#include <string.h>

#include "ddpcore/checkpoint/state_dict.h"
#include "harness/ckpt/parts.h"

enum { NAME_COLUMNS_MAX = 60, META_COLUMNS_MAX = 200 };

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* What a file or a user calls something may hold anything: it stays on its line. */
static void say_clean(struct ddp_text *out, const char *text, size_t most)
{
    for (size_t i = 0; text[i] != '\0' && i < most; i++) {
        const unsigned char byte = (unsigned char)text[i];

        if (byte < 0x20 || byte == 0x7f) {
            ddp_text_add(out, "?");
        } else {
            ddp_text_add_bytes(out, &text[i], 1);
        }
    }
    ddp_text_add(out, "%s", strlen(text) > most ? "..." : "");
}

static void say_size(struct ddp_text *out, const struct harness_ckpt *ckpt)
{
    size_t elem_count = 0, size_bytes = 0;

    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        elem_count += ckpt->tensors[i].elem_count;
        size_bytes += ckpt->tensors[i].size_bytes;
    }
    ddp_text_add(out, "%s, %zu tensor%s, %zu element%s, %zu bytes",
                 harness_ckpt_kind_name(ckpt->kind), ckpt->tensor_count, plural(ckpt->tensor_count),
                 elem_count, plural(elem_count), size_bytes);
}

static void say_taken(struct ddp_text *out, const struct harness_ckpt *ckpt)
{
    if (ckpt->taken != NULL) {
        ddp_text_add(out, "  taken     ");
        say_clean(out, ckpt->taken, META_COLUMNS_MAX);
        ddp_text_add(out, "\n");
    }
    if (ckpt->left_out != NULL) {
        ddp_text_add(out, "  left out  ");
        say_clean(out, ckpt->left_out, META_COLUMNS_MAX);
        if (ckpt->other_count > 0) {
            ddp_text_add(out, " (with %zu tensor%s)", ckpt->other_count, plural(ckpt->other_count));
        }
        ddp_text_add(out, "\n");
    }
}

static const char *checksum_words(const struct harness_ckpt *ckpt)
{
    switch (ckpt->checksum) {
    case HARNESS_CKPT_CHECKSUM_HOLDS:
        return ckpt->kind == HARNESS_CKPT_TORCH
                   ? "holds: a CRC-32 of each entry of the archive"
                   : "holds, of all values; names and metadata have none";
    case HARNESS_CKPT_CHECKSUM_BROKEN:
        return "broken: see below";
    case HARNESS_CKPT_CHECKSUM_NONE:
        break;
    }
    return "none: a changed value would not show";
}

static void say_prefix(struct ddp_text *out, const struct harness_ckpt *ckpt)
{
    struct harness_ckpt_prefix prefix;

    harness_ckpt_prefix_of(ckpt, &prefix);
    ddp_text_add(out, "  prefix    %zu of %zu keys begin with \"" DDP_PREFIX_MODULE "\"",
                 prefix.with_count, prefix.key_count);
    if (prefix.depth_max > 1) {
        ddp_text_add(out, ", %s%u times", prefix.depth_min < prefix.depth_max ? "up to " : "",
                     prefix.depth_max);
    }
    if (harness_ckpt_prefix_is_mixed(&prefix)) {
        ddp_text_add(out, ", and \"");
        say_clean(out, prefix.without, META_COLUMNS_MAX);
        ddp_text_add(out, "\" does not");
    } else if (prefix.with_count > 0) {
        ddp_text_add(out, " (ddprove ckpt strip takes one away)");
    }
    if (prefix.key_count < ckpt->tensor_count) {
        ddp_text_add(out, "; %zu of the optimizer or a hook do not count",
                     ckpt->tensor_count - prefix.key_count);
    }
    ddp_text_add(out, "\n");
}

static void say_faults(struct ddp_text *out, const struct harness_ckpt_lines *faults)
{
    for (size_t i = 0; i < faults->count && i < HARNESS_CKPT_LINES_MAX; i++) {
        ddp_text_add(out, "  fault     %s\n", faults->line[i]);
    }
    if (faults->count > HARNESS_CKPT_LINES_MAX) {
        ddp_text_add(out, "  and %zu faults more\n", faults->count - HARNESS_CKPT_LINES_MAX);
    }
}

static void say_tensor(struct ddp_text *out, const struct harness_ckpt_tensor *tensor, int columns)
{
    const size_t length = strlen(tensor->name);
    size_t first = 0;

    ddp_text_add(out, "  ");
    say_clean(out, tensor->name, length);
    ddp_text_add(out, "%*s  ", length < (size_t)columns ? columns - (int)length : 0, "");
    harness_ckpt_say_form(out, tensor);
    if (harness_ckpt_dtype_is_float(tensor->dtype)) {
        const size_t count =
            harness_ckpt_not_finite(tensor->dtype, tensor->data, tensor->elem_count, &first);

        if (count > 0) {
            ddp_text_add(out, "  %zu not finite", count);
        }
    }
    ddp_text_add(out, "\n");
}

void harness_ckpt_print(const struct harness_ckpt *ckpt, const char *path, struct ddp_text *out)
{
    int columns = 0;

    ddp_text_add(out, "%s: ", path);
    say_size(out, ckpt);
    ddp_text_add(out, " in a file of %zu\n", ckpt->file_bytes);
    say_taken(out, ckpt);
    for (size_t i = 0; i < ckpt->meta_count; i++) {
        ddp_text_add(out, "  metadata  ");
        say_clean(out, ckpt->meta[i].key, META_COLUMNS_MAX);
        ddp_text_add(out, " = ");
        say_clean(out, ckpt->meta[i].value, META_COLUMNS_MAX);
        ddp_text_add(out, "\n");
    }
    if (ckpt->is_whole) {
        ddp_text_add(out, "  checksum  %s\n", checksum_words(ckpt));
        say_prefix(out, ckpt);
    }
    say_faults(out, &ckpt->faults);
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const size_t length = strlen(ckpt->tensors[i].name);

        columns = length <= NAME_COLUMNS_MAX && (int)length > columns ? (int)length : columns;
    }
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        say_tensor(out, &ckpt->tensors[i], columns);
    }
}

void harness_ckpt_print_verdict(const struct harness_ckpt *ckpt, const char *path,
                                struct ddp_text *out)
{
    ddp_text_add(out, "%s: %s, ", path, ckpt->faults.count == 0 ? "PASS" : "FAIL");
    if (ckpt->faults.count > 0) {
        ddp_text_add(out, "%zu fault%s\n", ckpt->faults.count, plural(ckpt->faults.count));
        say_faults(out, &ckpt->faults);
        return;
    }
    say_size(out, ckpt);
    ddp_text_add(out, "\n");
    say_taken(out, ckpt);
    ddp_text_add(out, "  checksum  %s\n", checksum_words(ckpt));
}

/* `"layer.weight" `, of both files where they differ in the prefix. */
static void say_name(struct ddp_text *out, const char *name)
{
    ddp_text_add(out, "\"");
    say_clean(out, name, strlen(name));
    ddp_text_add(out, "\"");
}

static void say_change(struct ddp_text *out, const struct harness_ckpt_change *change,
                       const char *path_a, const char *path_b)
{
    const struct harness_ckpt_tensor *a = change->a, *b = change->b;

    ddp_text_add(out, "  ");
    say_name(out, a != NULL ? a->name : b->name);
    if (a == NULL || b == NULL) {
        ddp_text_add(out, " only in %s: ", a != NULL ? path_a : path_b);
        harness_ckpt_say_form(out, a != NULL ? a : b);
    } else if (change->is_other_form) {
        ddp_text_add(out, " is ");
        harness_ckpt_say_form(out, a);
        ddp_text_add(out, ", and ");
        harness_ckpt_say_form(out, b);
    } else {
        ddp_text_add(out, ": %zu of %zu elements differ", change->elem_count, a->elem_count);
        if (change->elem_count > change->not_finite_count) {
            if (harness_ckpt_dtype_is_float(a->dtype)) {
                ddp_text_add(out, ", by up to %.6g and %" PRIu64 " ulp%s", change->abs_max,
                             change->distance_max, plural(change->distance_max));
            } else {
                ddp_text_add(out, ", by up to %" PRIu64, change->distance_max);
            }
        }
        if (change->not_finite_count > 0) {
            ddp_text_add(out, ", in %zu pair%s one is not finite", change->not_finite_count,
                         plural(change->not_finite_count));
        }
        ddp_text_add(out, "; first at ");
        harness_ckpt_say_place(out, a, change->first);
        ddp_text_add(out, ": ");
        harness_ckpt_say_value(out, a->dtype, harness_ckpt_bits(a->dtype, a->data, change->first));
        ddp_text_add(out, ", and ");
        harness_ckpt_say_value(out, b->dtype, harness_ckpt_bits(b->dtype, b->data, change->first));
    }
    ddp_text_add(out, "\n");
}

/* What else is in a file is not compared. */
static void say_part(struct ddp_text *out, const struct harness_ckpt *ckpt, const char *path)
{
    if (ckpt->taken == NULL && ckpt->left_out == NULL) {
        return;
    }
    ddp_text_add(out, "  of %s: ", path);
    say_clean(out, ckpt->taken != NULL ? ckpt->taken : "the whole", META_COLUMNS_MAX);
    if (ckpt->left_out != NULL) {
        ddp_text_add(out, "; left out: ");
        say_clean(out, ckpt->left_out, META_COLUMNS_MAX);
    }
    ddp_text_add(out, "\n");
}

void harness_ckpt_print_diff(const struct harness_ckpt_diff *diff, const char *path_a,
                             const char *path_b, struct ddp_text *out)
{
    const uint32_t depth = (uint32_t)(diff->shift < 0 ? -diff->shift : diff->shift);

    if (diff->change_count == 0) {
        ddp_text_add(out, "%s and %s: equal bit for bit, %zu tensor%s\n", path_a, path_b,
                     diff->equal_count, plural(diff->equal_count));
    } else {
        ddp_text_add(out, "%s and %s: %zu of %zu tensors differ\n", path_a, path_b,
                     diff->change_count, diff->change_count + diff->equal_count);
    }
    if (depth > 0) {
        ddp_text_add(out, "  prefix    every key of %s begins with \"" DDP_PREFIX_MODULE "\"",
                     diff->shift > 0 ? path_a : path_b);
        if (depth > 1) {
            ddp_text_add(out, " %u times", depth);
        }
        ddp_text_add(out, " more; compared without it\n");
    }
    say_part(out, diff->a, path_a);
    say_part(out, diff->b, path_b);
    for (size_t i = 0; i < diff->meta.count && i < HARNESS_CKPT_LINES_MAX; i++) {
        ddp_text_add(out, "  metadata  %s\n", diff->meta.line[i]);
    }
    for (size_t i = 0; i < diff->change_count; i++) {
        say_change(out, &diff->changes[i], path_a, path_b);
    }
}
