/* Fuzz target: any bytes as JSON: Flight Recorder, torchrun, py-spy, RAS. */
#include "tests/fuzz/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 2 || (data[0] != '{' && data[0] != '[')) {
        return 0;
    }
    dump_try(".json", data, size_bytes);
    return 0;
}
