/* Files that commands write on demand. */
#include <stdlib.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"

int cli_write_text(const char *command, const char *path, const struct ddp_text *text)
{
    struct ddp_err err = {{0}};

    if (text->is_failed || ddp_files_write_atomic(ddp_files_system(), path, ddp_text_str(text),
                                                  text->size_bytes, &err) != DDP_OK) {
        (void)cli_usage_error("%s: %s", command,
                              text->is_failed ? "no memory for what is written" : err.text);
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    return 0;
}

int cli_write_json(const char *command, const char *path, json_t *root)
{
    char *dumped = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
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
