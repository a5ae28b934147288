/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * The log of calls, while turns are on. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/nccl/hooks.h"
#include "tests/standin/nccl/internal.h"

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char **lines;
static size_t line_count;
static int comm_count;
static atomic_uint_fast64_t asked_count;

void standin_log_clear(void)
{
    pthread_mutex_lock(&log_lock);
    for (size_t i = 0; i < line_count; i++) {
        free(lines[i]);
    }
    free(lines);
    lines = NULL;
    line_count = 0;
    comm_count = 0;
    pthread_mutex_unlock(&log_lock);
}

int standin_log_number(void)
{
    pthread_mutex_lock(&log_lock);
    int number = comm_count++;
    pthread_mutex_unlock(&log_lock);
    return number;
}

void standin_log(const struct standin_comm *comm, const char *format, ...)
{
    char text[96];
    va_list arguments;
    if (!standin_turns_are_on()) {
        return;
    }
    va_start(arguments, format);
    int length = snprintf(text, sizeof text, "%d: ", comm->number);
    (void)vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&log_lock);
    char **grown = realloc(lines, (line_count + 1) * sizeof *lines);
    if (grown == NULL || (grown[line_count] = strdup(text)) == NULL) {
        abort();
    }
    lines = grown;
    line_count++;
    pthread_mutex_unlock(&log_lock);
}

const char *ddp_nccl_standin_call(uint64_t index)
{
    pthread_mutex_lock(&log_lock);
    const char *line = index < line_count ? lines[index] : NULL;
    pthread_mutex_unlock(&log_lock);
    return line;
}

void standin_log_question(void)
{
    atomic_fetch_add(&asked_count, 1);
}

uint64_t ddp_nccl_standin_asked(void)
{
    return atomic_load(&asked_count);
}
