/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Error texts: those of init.cc and debug.cc. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/standin/nccl/internal.h"

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;
static char error_text[1024];

void standin_warn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&error_lock);
    (void)vsnprintf(error_text, sizeof error_text, format, arguments);
    pthread_mutex_unlock(&error_lock);
    va_end(arguments);
}

/* NCCL returns its one buffer; a copy per thread holds the same text without the race. */
const char *ncclGetLastError(struct standin_comm *comm)
{
    static _Thread_local char copy[sizeof error_text];
    (void)comm;
    pthread_mutex_lock(&error_lock);
    memcpy(copy, error_text, sizeof copy);
    pthread_mutex_unlock(&error_lock);
    return copy;
}

const char *ncclGetErrorString(int result)
{
    switch (result) {
    case STANDIN_SUCCESS:
        return "no error";
    case STANDIN_CUDA_ERROR:
        return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case STANDIN_SYSTEM_ERROR:
        return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case STANDIN_INTERNAL_ERROR:
        return "internal error - please report this issue to the NCCL developers";
    case STANDIN_INVALID_ARGUMENT:
        return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case STANDIN_INVALID_USAGE:
        return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case STANDIN_REMOTE_ERROR:
        return "remote process exited or there was a network error";
    case STANDIN_IN_PROGRESS:
        return "NCCL operation in progress";
    default:
        return "unknown result code";
    }
}

int ncclGetVersion(int *version)
{
    if (version == NULL) {
        return STANDIN_INVALID_ARGUMENT;
    }
    *version = standin_script_version();
    return STANDIN_SUCCESS;
}
