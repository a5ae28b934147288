/* A C face for GoogleTest: cases are C functions, checks are macros, GoogleTest runs and reports.
 *
 *     CT_TEST(text, parses_numbers)
 *     {
 *         CT_REQUIRE(text != NULL);
 *         CT_CHECK_EQ_U64(count, 3);
 *     }
 *
 * CHECK notes a failure and goes on; REQUIRE and SKIP leave the function they stand in. Checks may
 * be used in helper functions and in threads, but a case must join its threads before it ends. */
#ifndef TESTS_CT_H
#define TESTS_CT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_case {
    const char *suite;
    const char *name;
    const char *file;
    int line;
    void (*run)(void);
    struct ct_case *next;
};

void ct_register(struct ct_case *test_case);
/* Note a failure at file:line. */
void ct_fail(const char *file, int line, const char *format, ...) DDP_PRINTF(3, 4);
void ct_skip(const char *reason);
/* Each returns whether the check held, and notes a failure if not. */
bool ct_check_u64(const char *file, int line, const char *what, uint64_t a, uint64_t b);
bool ct_check_i64(const char *file, int line, const char *what, int64_t a, int64_t b);
bool ct_check_str(const char *file, int line, const char *what, const char *a, const char *b);
bool ct_check_bytes(const char *file, int line, const char *what, const void *a, const void *b,
                    size_t size_bytes);
bool ct_check_status(const char *file, int line, const char *what, ddp_status got,
                     ddp_status expected);

#define CT_TEST(suite, name)                                                    \
    static void ct_run_##suite##_##name(void);                                  \
    static struct ct_case ct_case_##suite##_##name = {                          \
        #suite, #name, __FILE__, __LINE__, ct_run_##suite##_##name, NULL};      \
    __attribute__((constructor)) static void ct_register_##suite##_##name(void) \
    {                                                                           \
        ct_register(&ct_case_##suite##_##name);                                 \
    }                                                                           \
    static void ct_run_##suite##_##name(void)

#define CT_FAIL(...) ct_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CT_SKIP(reason)  \
    do {                 \
        ct_skip(reason); \
        return;          \
    } while (0)
#define CT_CHECK(condition)                                              \
    do {                                                                 \
        if (!(condition)) {                                              \
            ct_fail(__FILE__, __LINE__, "%s does not hold", #condition); \
        }                                                                \
    } while (0)
#define CT_REQUIRE(condition)                                            \
    do {                                                                 \
        if (!(condition)) {                                              \
            ct_fail(__FILE__, __LINE__, "%s does not hold", #condition); \
            return;                                                      \
        }                                                                \
    } while (0)
#define CT_CHECK_EQ_U64(a, b) ((void)ct_check_u64(__FILE__, __LINE__, #a " == " #b, (a), (b)))
#define CT_CHECK_EQ_I64(a, b) ((void)ct_check_i64(__FILE__, __LINE__, #a " == " #b, (a), (b)))
#define CT_CHECK_STR(a, b)    ((void)ct_check_str(__FILE__, __LINE__, #a " == " #b, (a), (b)))
#define CT_CHECK_BYTES(a, b, size_bytes) \
    ((void)ct_check_bytes(__FILE__, __LINE__, #a " == " #b, (a), (b), (size_bytes)))
#define CT_CHECK_OK(expression) \
    ((void)ct_check_status(__FILE__, __LINE__, #expression, (expression), DDP_OK))
#define CT_CHECK_STATUS(expression, expected) \
    ((void)ct_check_status(__FILE__, __LINE__, #expression, (expression), (expected)))
/* Leaves the function unless the expression is DDP_OK. */
#define CT_REQUIRE_OK(expression)                                                      \
    do {                                                                               \
        if (!ct_check_status(__FILE__, __LINE__, #expression, (expression), DDP_OK)) { \
            return;                                                                    \
        }                                                                              \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
