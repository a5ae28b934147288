/* lint: scenario files, read, checked and rehearsed, but not judged. */
#include <stdio.h>

#include "ddpcore/base/file.h"
#include "harness/cell/cell.h"
#include "harness/cli/cli.h"

/* "path:line:col" of what the cell says wrong; the path alone if it cannot be told. */
static void add_place(const char *path, const struct cli_options *options, size_t cell,
                      const char *key, struct ddp_text *out)
{
    const struct harness_scenario_place place = {path, (const char *const *)options->sets,
                                                 options->set_count, cell};
    struct ddp_files *files = ddp_files_system();
    void *text = NULL;
    size_t size_bytes = 0;
    struct ddp_err err;
    ddp_status status = DDP_E_NOT_FOUND;

    if (key[0] != '\0') {
        status = files->ops->read_all(files, path, ddp_mem_system(), &text, &size_bytes, &err);
    }
    if (status == DDP_OK) {
        status = harness_scenario_locate(text, size_bytes, &place, key, out, &err);
        ddp_mem_free(ddp_mem_system(), text);
    }
    if (status != DDP_OK) {
        ddp_text_add(out, "%s", path);
    }
}

/* Some cell injects the fault of each row that the scenario says it covers. */
static bool check_covers(const char *path, const struct cli_options *options,
                         const struct harness_scenario *scenario)
{
    const struct harness_texts *covers = &scenario->plans[0].covers;

    for (size_t i = 0; i < covers->count; i++) {
        size_t count;
        const struct harness_fault_row *row = harness_fault_rows(&count);
        char key[HARNESS_BLAMED_KEY_BYTES];
        struct ddp_text place;
        bool is_injected = false;
        size_t index = 0;

        if (!harness_fault_row_find(covers->items[i], &index)) {
            continue; /* refused while reading */
        }
        row += index;
        for (size_t k = 0; k < scenario->plan_count && !is_injected; k++) {
            is_injected = harness_fault_row_is_injected(row, &scenario->plans[k]);
        }
        if (is_injected) {
            continue;
        }
        (void)snprintf(key, sizeof key, "covers.%zu", i);
        ddp_text_init(&place, ddp_mem_system());
        add_place(path, options, scenario->cells[0], key, &place);
        (void)fprintf(stderr, "%s: %s, %s, is not injected here; that is done by: %s\n",
                      ddp_text_str(&place), row->id, row->fault,
                      row->injectors[0] != '\0' ? row->injectors : "nothing that a scenario has");
        ddp_text_fini(&place);
        return false;
    }
    return true;
}

/* Every cell is tried in the simulator: what can't happen there is a mistake of the scenario. Only
 * the first cell that is wrong is told. */
static bool rehearse(const char *path, const struct cli_options *options,
                     const struct harness_scenario *scenario)
{
    for (size_t i = 0; i < scenario->plan_count; i++) {
        const struct harness_plan *plan = &scenario->plans[i];
        char key[HARNESS_BLAMED_KEY_BYTES];
        struct ddp_err err = {{0}};
        struct ddp_text place;

        if (harness_cell_rehearse(plan, key, &err) == DDP_OK) {
            continue;
        }
        ddp_text_init(&place, ddp_mem_system());
        add_place(path, options, scenario->cells[i], key, &place);
        (void)fprintf(stderr, "%s: %s%s%s%s\n", ddp_text_str(&place), err.text,
                      plan->cell[0] != '\0' ? " (cell " : "", plan->cell,
                      plan->cell[0] != '\0' ? ")" : "");
        ddp_text_fini(&place);
        return false;
    }
    return true;
}

int cli_lint(const struct cli_options *options)
{
    struct ddp_err err = {{0}};
    struct cli_files files;
    size_t bad = 0;

    if (options->path_count == 0) {
        return cli_usage_error("lint: name a scenario file or a folder of them");
    }
    if (cli_files_collect(options->paths, options->path_count, &files, &err) != DDP_OK) {
        cli_files_fini(&files);
        return cli_usage_error("%s", err.text);
    }
    for (size_t i = 0; i < files.count; i++) {
        struct harness_scenario scenario;

        if (!cli_scenario_load(files.path[i], options, &scenario)) {
            bad++;
            continue;
        }
        bad += check_covers(files.path[i], options, &scenario) &&
                       rehearse(files.path[i], options, &scenario)
                   ? 0
                   : 1;
        harness_scenario_fini(&scenario);
    }
    (void)printf("%zu scenario file%s, %zu bad\n", files.count, files.count == 1 ? "" : "s", bad);
    cli_files_fini(&files);
    return bad > 0 ? CLI_EXIT_USAGE : 0;
}
