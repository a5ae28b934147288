/* Files that commands write on demand. */
#include <stdlib.h>
#include <sys/stat.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"

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
