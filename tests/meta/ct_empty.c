/* Registers no case: the run is expected to exit 2. */
#include "tests/ct.h"
