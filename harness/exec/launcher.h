/* Launchers of other people: what a job's command becomes under them. */
#ifndef HARNESS_EXEC_LAUNCHER_H
#define HARNESS_EXEC_LAUNCHER_H

#include "harness/exec/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HARNESS_EXEC_LAUNCH_WORDS = 8, HARNESS_EXEC_LAUNCH_VARIABLES = 8 };

/* What stands before the program's own words, and the variables that the launcher is given. Points
 * into itself: it is not copied. */
struct harness_exec_launch {
    char *argv[HARNESS_EXEC_LAUNCH_WORDS];
    size_t argc;
    char ranks[16];
    struct harness_exec_variable variables[HARNESS_EXEC_LAUNCH_VARIABLES];
    size_t variable_count;
};

/* program: the first word of the command; folder: where the launcher's files may lie, NULL: where
 * it likes. Both outlive *out. */
void harness_exec_launch_prepare(enum harness_guest_launcher launcher, uint32_t ranks,
                                 const char *program, const char *folder,
                                 struct harness_exec_launch *out);
/* The program of this command starts a job's ranks itself, all on this host: to start it once for
 * each rank would start as many jobs. */
bool harness_exec_launch_is_launcher(const char *const *command);
bool harness_exec_is_in_path(const char *program);
/* That program is found in PATH. */
bool harness_exec_launch_is_there(enum harness_guest_launcher launcher);
/* The launcher's words and the program's, ending with NULL; in mem. NULL: no memory. */
char **harness_exec_launch_words(const struct harness_exec_launch *launch, struct ddp_mem *mem,
                                 const char *const *words, size_t count);

#ifdef __cplusplus
}
#endif
#endif
