#ifndef HARNESS_DIAGNOSE_INTERNAL_H
#define HARNESS_DIAGNOSE_INTERNAL_H

#include "harness/diagnose/answer.h"
#include "harness/diagnose/diagnose.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_diagnosis {
    struct ddp_mem_pool *pool;
    struct harness_diag_evidence evidence;
    struct harness_diag_answer answer;
    size_t file_count;
};

#ifdef __cplusplus
}
#endif
#endif
