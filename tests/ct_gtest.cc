/* The C shim's GoogleTest side: registers every CT_TEST and turns failed checks into gtest failures
 * at the C file and line. An executable without cases exits 2, so that a test file dropped by the
 * linker cannot pass for a green run. */
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>

#include "tests/ct.h"

static struct ct_case *ct_first;
static struct ct_case **ct_tail = &ct_first;

class CtTest : public testing::Test
{
  public:
    explicit CtTest(void (*run)(void)) : run_(run)
    {
    }
    void TestBody() override
    {
        run_();
    }

  private:
    void (*run_)(void);
};

void ct_register(struct ct_case *test_case)
{
    *ct_tail = test_case;
    ct_tail = &test_case->next;
}

void ct_fail(const char *file, int line, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    ADD_FAILURE_AT(file, line) << text;
}

void ct_skip(const char *reason)
{
    GTEST_SKIP() << reason;
}

bool ct_check_u64(const char *file, int line, const char *what, uint64_t a, uint64_t b)
{
    if (a == b) {
        return true;
    }
    ct_fail(file, line, "%s: %" PRIu64 " (0x%" PRIx64 ") is not %" PRIu64 " (0x%" PRIx64 ")", what,
            a, a, b, b);
    return false;
}

bool ct_check_i64(const char *file, int line, const char *what, int64_t a, int64_t b)
{
    if (a == b) {
        return true;
    }
    ct_fail(file, line, "%s: %" PRId64 " is not %" PRId64, what, a, b);
    return false;
}

bool ct_check_str(const char *file, int line, const char *what, const char *a, const char *b)
{
    if (a == b || (a != nullptr && b != nullptr && std::strcmp(a, b) == 0)) {
        return true;
    }
    ct_fail(file, line, "%s:\n  \"%s\"\nis not\n  \"%s\"", what, a == nullptr ? "(null)" : a,
            b == nullptr ? "(null)" : b);
    return false;
}

bool ct_check_bytes(const char *file, int line, const char *what, const void *a, const void *b,
                    size_t size_bytes)
{
    const unsigned char *left = static_cast<const unsigned char *>(a);
    const unsigned char *right = static_cast<const unsigned char *>(b);

    for (size_t i = 0; i < size_bytes; i++) {
        if (left[i] != right[i]) {
            ct_fail(file, line, "%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, size_bytes,
                    static_cast<unsigned>(left[i]), static_cast<unsigned>(right[i]));
            return false;
        }
    }
    return true;
}

bool ct_check_status(const char *file, int line, const char *what, ddp_status got,
                     ddp_status expected)
{
    if (got == expected) {
        return true;
    }
    ct_fail(file, line, "%s returned %s (%d), not %s (%d)", what, ddp_status_name(got),
            static_cast<int>(got), ddp_status_name(expected), static_cast<int>(expected));
    return false;
}

int main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    if (ct_first == nullptr) {
        std::fprintf(stderr, "no test case is registered\n");
        return 2;
    }
    for (struct ct_case *test_case = ct_first; test_case != nullptr; test_case = test_case->next) {
        void (*run)(void) = test_case->run;
        testing::RegisterTest(test_case->suite, test_case->name, nullptr, nullptr, test_case->file,
                              test_case->line, [run]() -> CtTest * { return new CtTest(run); });
    }
    return RUN_ALL_TESTS();
}
