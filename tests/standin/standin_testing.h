/* What the tests of the CUDA stand-in share. Nothing that runs on it is a GPU result. */
#ifndef TESTS_STANDIN_STANDIN_TESTING_H
#define TESTS_STANDIN_STANDIN_TESTING_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_REQUIRE(expression) CT_REQUIRE((expression) == cudaSuccess)
#define CUDA_CHECK(expression)   CT_CHECK_EQ_I64((expression), cudaSuccess)

/* Holds a stream until it is opened; all are 0 at first. */
struct standin_gate {
    int is_open;      /* by the test, with gate_open */
    int is_entered;   /* the stream has come to the gate */
    int is_cancelled; /* it was let through because the device had failed */
};
/* Enqueue the gate: the stream does not go on before it is open. */
cudaError_t gate_enqueue(struct standin_gate *gate, cudaStream_t stream);
void gate_open(struct standin_gate *gate);
/* Open the gate from a stream, in its order. */
cudaError_t gate_open_enqueue(struct standin_gate *gate, cudaStream_t stream);
bool gate_is_entered(const struct standin_gate *gate);
bool gate_is_cancelled(const struct standin_gate *gate);
/* Ask until it is not cudaErrorNotReady. */
cudaError_t event_poll(cudaEvent_t event);
cudaError_t stream_create(cudaStream_t *out);
cudaError_t event_create(cudaEvent_t *out);
/* Fails the case if anything is alive. */
void check_nothing_left(void);

#ifdef __cplusplus
}
#endif
#endif
