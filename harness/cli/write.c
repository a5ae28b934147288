/* Files that commands write on demand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"
#include "harness/cli/template.h"

/* A device, a pipe, a link: it is written to, and never replaced by a file. */
static bool is_special(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

int cli_write_text(const char *command, const char *path, const struct ddp_text *text)
{
    struct ddp_err err = {"no memory for what is written"};
    ddp_status status = DDP_E_NOMEM;

    if (!text->is_failed) {
        status = (is_special(path) ? ddp_files_write_whole : ddp_files_write_atomic)(
            ddp_files_system(), path, ddp_text_str(text), text->size_bytes, &err);
    }
    if (status != DDP_OK) {
        (void)cli_usage_error("%s: %s", command, err.text);
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    return 0;
}

int cli_write_template(const char *command, const char *path, const char *name,
                       const struct cli_template *file)
{
    static const char hole[] = "@NAME@";
    struct ddp_text text;
    size_t at = 0;
    int code;

    ddp_text_init(&text, ddp_mem_system());
    while (at < file->size_bytes) {
        bool is_hole = file->size_bytes - at >= sizeof hole - 1 &&
                       memcmp(file->data + at, hole, sizeof hole - 1) == 0;

        ddp_text_add_bytes(&text, is_hole ? (const void *)name : (const void *)(file->data + at),
                           is_hole ? strlen(name) : 1);
        at += is_hole ? sizeof hole - 1 : 1;
    }
    code = cli_write_text(command, path, &text);
    ddp_text_fini(&text);
    if (code == 0) {
        (void)printf("%s\n", path);
    }
    return code;
}

int cli_write_json(const char *command, const char *path, json_t *root)
{
    char *dumped = root != NULL ? json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    struct ddp_text text;
    int code;

    ddp_text_init(&text, ddp_mem_system());
    text.is_failed = dumped == NULL;
    ddp_text_add(&text, "%s\n", dumped != NULL ? dumped : "");
    code = cli_write_text(command, path, &text);
    ddp_text_fini(&text);
    free(dumped);
    json_decref(root);
    return code;
}
