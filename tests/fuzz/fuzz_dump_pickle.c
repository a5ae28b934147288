/* Fuzz target: any bytes as pickles of the Flight Recorder, as two ranks' files. */
#include "tests/fuzz/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 2 || data[0] != 0x80) {
        return 0;
    }
    dump_try("", data, size_bytes);
    return 0;
}
