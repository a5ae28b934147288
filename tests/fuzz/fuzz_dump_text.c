/* Fuzz target: any bytes as lines of consoles: watchdog, torchrun, tracebacks, py-spy, NCCL. */
#include "tests/fuzz/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 1 || data[0] == 0x80) {
        return 0;
    }
    dump_try(".log", data, size_bytes);
    return 0;
}
