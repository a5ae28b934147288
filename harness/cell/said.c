/* What a rank said last: the last line of its log, which is where its error is. */
#include <stdio.h>
#include <string.h>

#include "harness/cell/stage.h"

enum { TEXT_BYTES_MAX = 512 };

/* The last line that is not empty, as a copy; NULL: there is none. */
static char *last_line(struct ddp_mem *mem, const char *log, size_t size_bytes)
{
    size_t end = size_bytes;
    size_t begin;
    char *line;

    while (end > 0 && (log[end - 1] == '\n' || log[end - 1] == ' ' || log[end - 1] == '\r')) {
        end--;
    }
    for (begin = end; begin > 0 && log[begin - 1] != '\n'; begin--) {
    }
    end = end - begin < TEXT_BYTES_MAX ? end : begin + TEXT_BYTES_MAX;
    line = end == begin ? NULL : ddp_mem_array(mem, end - begin + 1, 1);
    if (line != NULL) {
        memcpy(line, log + begin, end - begin);
    }
    return line;
}

static char *line_of(const struct harness_cell *cell, const char *run_dir, uint32_t rank)
{
    void *log = NULL;
    size_t size_bytes = 0;
    char name[32];
    char *line = NULL;

    (void)snprintf(name, sizeof name, "rank%u.log", rank);
    if (harness_stage_read(cell, run_dir, name, &log, &size_bytes, NULL) == DDP_OK) {
        line = last_line(cell->mem, log, size_bytes);
        ddp_mem_free(cell->mem, log);
        (void)snprintf(name, sizeof name, "rank %u: ", rank);
        /* Who says it is said already. */
        line += line != NULL && strncmp(line, name, strlen(name)) == 0 ? strlen(name) : 0;
    }
    return line;
}

char *harness_stage_said(const struct harness_cell *cell, const char *run_dir, uint32_t world_size,
                         const struct harness_rank_set *first, uint32_t *out_rank)
{
    char *line = NULL;

    for (uint32_t i = 0; i < harness_rank_set_count(first) && line == NULL; i++) {
        *out_rank = harness_rank_set_at(first, i);
        line = line_of(cell, run_dir, *out_rank);
    }
    for (uint32_t rank = 0; rank < world_size && line == NULL; rank++) {
        *out_rank = rank;
        line = line_of(cell, run_dir, rank);
    }
    return line;
}

bool harness_stage_is_said(const struct harness_cell *cell, const char *run_dir,
                           uint32_t world_size, const char *text, const char **out_said)
{
    *out_said = "";
    for (uint32_t rank = 0; rank < world_size; rank++) {
        const char *line = line_of(cell, run_dir, rank);

        if (line != NULL && strstr(line, text) != NULL) {
            return true;
        }
        *out_said = line != NULL && (*out_said)[0] == '\0' ? line : *out_said;
    }
    return false;
}
