/* A stand-in for NCCL, for tests only: no GPU, no NCCL. Nothing it does is a GPU result.
 *
 * The part of NCCL's ABI that the stand-in has, in declarations of its own: NCCL's names with other
 * types of the same layout (abi_check.c holds them against nccl.h where that is installed). Source:
 * nccl.h of NCCL 2.28.9. The functions are in functions.h. */
#ifndef TESTS_STANDIN_NCCL_ABI_H
#define TESTS_STANDIN_NCCL_ABI_H

#include <limits.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum standin_result {
    STANDIN_SUCCESS = 0,
    STANDIN_CUDA_ERROR = 1,
    STANDIN_SYSTEM_ERROR = 2,
    STANDIN_INTERNAL_ERROR = 3,
    STANDIN_INVALID_ARGUMENT = 4,
    STANDIN_INVALID_USAGE = 5,
    STANDIN_REMOTE_ERROR = 6,
    STANDIN_IN_PROGRESS = 7,
    STANDIN_RESULT_COUNT = 8
};

enum standin_dtype {
    STANDIN_INT8,
    STANDIN_UINT8,
    STANDIN_INT32,
    STANDIN_UINT32,
    STANDIN_INT64,
    STANDIN_UINT64,
    STANDIN_FLOAT16,
    STANDIN_FLOAT32,
    STANDIN_FLOAT64,
    STANDIN_BFLOAT16,
    STANDIN_FLOAT8_E4M3,
    STANDIN_FLOAT8_E5M2,
    STANDIN_DTYPE_COUNT
};

enum standin_redop { STANDIN_SUM, STANDIN_PROD, STANDIN_MAX, STANDIN_MIN, STANDIN_AVG };

#define STANDIN_ID_BYTES     128
#define STANDIN_CONFIG_MAGIC 0xcafebeefu
#define STANDIN_UNDEFINED    INT_MIN
#define STANDIN_NO_COLOR     (-1)
#define STANDIN_SHRINK_ABORT 1

struct standin_id {
    char internal[STANDIN_ID_BYTES];
};

struct standin_config {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
    int traffic_class;
    const char *comm_name;
    int collnet_enable;
    int cta_policy;
    int shrink_share;
    int nvls_ctas;
    int channels_per_net_peer;
    int nvlink_centric_sched;
};

struct standin_comm;

#ifdef __cplusplus
}
#endif
#endif
