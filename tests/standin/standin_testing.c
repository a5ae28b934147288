/* What the tests of the CUDA stand-in share. Nothing that runs on it is a GPU result. */
#include "tests/standin/standin_testing.h"

#include <ddp_standin.h>
#include <sched.h>

#include "tests/ct.h"

static int gate_run(void *context, const volatile int *is_cancelled)
{
    struct standin_gate *gate = context;

    __atomic_store_n(&gate->is_entered, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&gate->is_open, __ATOMIC_ACQUIRE) == 0) {
        if (__atomic_load_n(is_cancelled, __ATOMIC_RELAXED) != 0) {
            __atomic_store_n(&gate->is_cancelled, 1, __ATOMIC_RELEASE);
            break;
        }
        sched_yield();
    }
    return 0;
}

static int gate_open_run(void *context, const volatile int *is_cancelled)
{
    (void)is_cancelled;
    gate_open(context);
    return 0;
}

cudaError_t gate_enqueue(struct standin_gate *gate, cudaStream_t stream)
{
    return (cudaError_t)ddp_standin_stream_enqueue(stream, gate_run, gate);
}

void gate_open(struct standin_gate *gate)
{
    __atomic_store_n(&gate->is_open, 1, __ATOMIC_RELEASE);
}

cudaError_t gate_open_enqueue(struct standin_gate *gate, cudaStream_t stream)
{
    return (cudaError_t)ddp_standin_stream_enqueue(stream, gate_open_run, gate);
}

bool gate_is_entered(const struct standin_gate *gate)
{
    return __atomic_load_n(&gate->is_entered, __ATOMIC_ACQUIRE) != 0;
}

bool gate_is_cancelled(const struct standin_gate *gate)
{
    return __atomic_load_n(&gate->is_cancelled, __ATOMIC_ACQUIRE) != 0;
}

cudaError_t event_poll(cudaEvent_t event)
{
    cudaError_t error = cudaEventQuery(event);

    while (error == cudaErrorNotReady) {
        sched_yield();
        error = cudaEventQuery(event);
    }
    return error;
}

cudaError_t stream_create(cudaStream_t *out)
{
    return cudaStreamCreateWithFlags(out, cudaStreamNonBlocking);
}

cudaError_t event_create(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDisableTiming);
}

void check_nothing_left(void)
{
    struct ddp_standin_report report;

    ddp_standin_report_get(&report);
    CT_CHECK_EQ_U64(report.device_count, 0);
    CT_CHECK_EQ_U64(report.pinned_count, 0);
    CT_CHECK_EQ_U64(report.registered_count, 0);
    CT_CHECK_EQ_U64(report.stream_count, 0);
    CT_CHECK_EQ_U64(report.event_count, 0);
}
