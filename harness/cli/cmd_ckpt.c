/* ckpt: what a checkpoint holds, whether it is sound, without its prefix, as safetensors, and
 * beside another one. Exit 1: the file is not sound, does not let itself be changed, or differs; 2:
 * it cannot be read; 3: what was to be written could not be. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/ckpt/ckpt.h"
#include "harness/cli/cli.h"

enum { EXIT_NO = 1 };

/* Returns 0, or an exit code; its error was printed. */
static int load(const struct cli_options *options, const char *path, struct harness_ckpt *out)
{
    struct ddp_err err = {{0}};
    struct stat info;
    ddp_status status;

    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        (void)cli_usage_error("ckpt: %s is a folder; name a file", path);
        return CLI_EXIT_USAGE;
    }
    status = harness_ckpt_load(ddp_files_system(), path, options->map, out, &err);
    if (status == DDP_OK) {
        return 0;
    }
    (void)cli_usage_error("ckpt: %s", err.text);
    return status == DDP_E_UNSUPPORTED ? harness_outcome_exit_code(HARNESS_OUTCOME_ERROR)
                                       : CLI_EXIT_USAGE;
}

/* A key that is asked for where there are no maps is a mistake. */
static int check_key(const struct cli_options *options, const struct harness_ckpt *ckpt)
{
    return options->map == NULL || ckpt->kind == HARNESS_CKPT_TORCH
               ? 0
               : cli_usage_error("ckpt: --key is for files of torch.save; safetensors has no maps");
}

static int no_memory(void)
{
    (void)cli_usage_error("ckpt: no memory for what there is to say");
    return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
}

/* Prints text and writes root, both taken over. code: what it would be. */
static int conclude(const struct cli_options *options, struct ddp_text *text, json_t *root,
                    int code)
{
    if (text->is_failed || root == NULL) {
        code = no_memory();
        json_decref(root);
    } else {
        (void)fputs(ddp_text_str(text), stdout);
        if (options->json == NULL) {
            json_decref(root);
        } else if (cli_write_json("--json", options->json, root) != 0) {
            code = harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
        }
    }
    ddp_text_fini(text);
    return code;
}

/* inspect, verify: what they have in common. */
static int show(const struct cli_options *options, bool is_verified)
{
    const char *path = options->paths[1];
    struct harness_ckpt ckpt;
    struct ddp_text text;
    int code = load(options, path, &ckpt);

    if (code != 0) {
        return code;
    }
    code = check_key(options, &ckpt);
    if (code == 0 && is_verified && harness_ckpt_verify(&ckpt) != DDP_OK) {
        code = no_memory();
    }
    if (code == 0) {
        ddp_text_init(&text, ddp_mem_system());
        (is_verified ? harness_ckpt_print_verdict : harness_ckpt_print)(&ckpt, path, &text);
        code = conclude(options, &text, harness_ckpt_json(&ckpt, path),
                        ckpt.faults.count == 0 ? 0 : EXIT_NO);
    }
    harness_ckpt_fini(&ckpt);
    return code;
}

static int inspect(const struct cli_options *options)
{
    return show(options, false);
}

static int verify(const struct cli_options *options)
{
    return show(options, true);
}

/* Where OUT really lies: a link's target is replaced, the link stays; what is no file is refused.
 */
static int resolve_out(const char *out, char *resolved)
{
    struct stat info;

    if (lstat(out, &info) == 0 && !S_ISREG(info.st_mode)) {
        if (stat(out, &info) != 0 || !S_ISREG(info.st_mode) || realpath(out, resolved) == NULL) {
            return cli_usage_error("ckpt: -o %s is there, but not as a file; name a file to write",
                                   out);
        }
        return 0;
    }
    if (strlen(out) >= PATH_MAX) {
        return cli_usage_error("ckpt: -o: the path is too long");
    }
    (void)snprintf(resolved, PATH_MAX, "%s", out);
    return 0;
}

/* Writes what was read from `in`. done: what was done, for people. */
static int write_out(const struct cli_options *options, const struct harness_ckpt *ckpt,
                     const char *done)
{
    struct ddp_err err = {{0}};
    char out[PATH_MAX];
    int code = resolve_out(options->out_dir, out);

    if (code != 0) {
        return code;
    }
    switch (harness_ckpt_write(ddp_files_system(), out, ckpt, &err)) {
    case DDP_OK:
        (void)printf("%s: %zu tensor%s, %s\n", options->out_dir, ckpt->tensor_count,
                     ckpt->tensor_count == 1 ? "" : "s", done);
        return 0;
    case DDP_E_KEYS:
    case DDP_E_OVERFLOW:
        (void)cli_usage_error("ckpt: %s: %s; nothing was written", options->paths[1], err.text);
        return EXIT_NO;
    default:
        (void)cli_usage_error("ckpt: %s", err.text);
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
}

/* A file that is not sound is not changed: what is made of it would look sound. */
static int refuse_unsound(const struct harness_ckpt *ckpt, const char *path)
{
    (void)cli_usage_error("ckpt: %s: %s%s; nothing was written", path, ckpt->faults.line[0],
                          ckpt->faults.count > 1 ? ", and more (ddprove ckpt verify)" : "");
    return EXIT_NO;
}

static int strip(const struct cli_options *options)
{
    const char *path = options->paths[1];
    struct harness_ckpt ckpt;
    struct ddp_err err = {{0}};
    int code = load(options, path, &ckpt);

    if (code != 0) {
        return code;
    }
    if (ckpt.kind != HARNESS_CKPT_SAFETENSORS) {
        code = EXIT_NO;
        (void)cli_usage_error("ckpt: %s is no safetensors file; make one of it first: ddprove "
                              "ckpt convert %s -o FILE",
                              path, path);
    } else if (ckpt.faults.count > 0) {
        code = refuse_unsound(&ckpt, path);
    } else if (harness_ckpt_strip(&ckpt, &err) != DDP_OK) {
        code = EXIT_NO;
        (void)cli_usage_error("ckpt: %s: %s; nothing was written", path, err.text);
    } else {
        struct harness_ckpt_prefix prefix;

        harness_ckpt_prefix_of(&ckpt, &prefix);
        code = write_out(options, &ckpt,
                         prefix.with_count > 0
                             ? "one \"module.\" taken from each key, and each still has one: strip "
                               "again if the model was wrapped twice"
                             : "one \"module.\" taken from each key");
    }
    harness_ckpt_fini(&ckpt);
    return code;
}

static int convert(const struct cli_options *options)
{
    const char *path = options->paths[1];
    struct harness_ckpt ckpt;
    struct ddp_text done;
    int code = load(options, path, &ckpt);

    if (code != 0) {
        return code;
    }
    if (ckpt.faults.count > 0) {
        code = refuse_unsound(&ckpt, path);
    } else if (ckpt.kind != HARNESS_CKPT_TORCH) {
        code = EXIT_NO;
        (void)cli_usage_error("ckpt: %s is safetensors already; copy it", path);
    } else {
        ddp_text_init(&done, ddp_mem_system());
        ddp_text_add(&done, "of %s%s%s", ckpt.taken != NULL ? ckpt.taken : "the whole file",
                     ckpt.left_out != NULL ? "; left out: " : "",
                     ckpt.left_out != NULL ? ckpt.left_out : "");
        code = write_out(options, &ckpt, ddp_text_str(&done));
        ddp_text_fini(&done);
    }
    harness_ckpt_fini(&ckpt);
    return code;
}

/* A file whose values are damaged is compared all the same: that shows where. */
static bool can_compare(const struct harness_ckpt *ckpt, const char *path)
{
    for (size_t i = 0; i < ckpt->faults.count && i < 1; i++) {
        (void)cli_usage_error("ckpt: %s: %s%s", path, ckpt->faults.line[i],
                              ckpt->faults.count > 1 ? ", and more (ddprove ckpt verify)" : "");
    }
    return ckpt->is_whole;
}

static int diff(const struct cli_options *options)
{
    const char *path_a = options->paths[1], *path_b = options->paths[2];
    struct harness_ckpt a, b;
    struct harness_ckpt_diff found;
    struct ddp_text text;
    bool is_whole;
    int code = load(options, path_a, &a);

    if (code != 0) {
        return code;
    }
    code = load(options, path_b, &b);
    if (code != 0) {
        harness_ckpt_fini(&a);
        return code;
    }
    is_whole = can_compare(&a, path_a);
    is_whole = can_compare(&b, path_b) && is_whole;
    if (a.kind == HARNESS_CKPT_SAFETENSORS && b.kind == HARNESS_CKPT_SAFETENSORS) {
        code = check_key(options, &a);
    }
    if (code != 0 || !is_whole) {
        code = code != 0 ? code : EXIT_NO;
    } else if (harness_ckpt_compare(&a, &b, &found) != DDP_OK) {
        code = no_memory();
    } else {
        ddp_text_init(&text, ddp_mem_system());
        harness_ckpt_print_diff(&found, path_a, path_b, &text);
        code = conclude(options, &text, harness_ckpt_diff_json(&found, path_a, path_b),
                        found.change_count + a.faults.count + b.faults.count == 0 ? 0 : EXIT_NO);
    }
    harness_ckpt_fini(&b);
    harness_ckpt_fini(&a);
    return code;
}

int cli_ckpt(const struct cli_options *options)
{
    static const struct {
        const char *name;
        int path_count;
        bool writes;
        int (*run)(const struct cli_options *options);
        const char *usage;
    } actions[] = {{"inspect", 2, false, inspect, "inspect FILE"},
                   {"verify", 2, false, verify, "verify FILE"},
                   {"strip", 2, true, strip, "strip IN -o OUT"},
                   {"convert", 2, true, convert, "convert IN -o OUT"},
                   {"diff", 3, false, diff, "diff A B"}};
    const char *names[sizeof actions / sizeof actions[0]];
    const char *nearest;

    if (options->path_count == 0) {
        return cli_usage_error("ckpt: say what to do with which file: ddprove ckpt inspect FILE, "
                               "verify FILE, strip IN -o OUT, convert IN -o OUT, diff A B");
    }
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        names[i] = actions[i].name;
        if (strcmp(options->paths[0], actions[i].name) != 0) {
            continue;
        }
        if (options->path_count != actions[i].path_count ||
            (options->out_dir != NULL) != actions[i].writes) {
            return cli_usage_error("ckpt: it is ddprove ckpt %s", actions[i].usage);
        }
        if (actions[i].writes && options->json != NULL) {
            return cli_usage_error("ckpt: --json is of inspect, verify and diff");
        }
        return actions[i].run(options);
    }
    nearest = ddp_text_nearest(options->paths[0], names, sizeof actions / sizeof actions[0]);
    return cli_usage_error("ckpt: \"%s\" is not known; %s%s", options->paths[0],
                           nearest != NULL ? "did you mean "
                                           : "known: inspect, verify, strip, "
                                             "convert, diff",
                           nearest != NULL ? nearest : "");
}
