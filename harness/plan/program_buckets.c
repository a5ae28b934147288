/* Which buckets are in force where. */
#include "harness/plan/program.h"

const struct harness_buckets *harness_program_buckets(const struct harness_program *program,
                                                      int32_t step)
{
    return program->rebuilt.count > 0 && step >= program->rebuilt_step ? &program->rebuilt
                                                                        : &program->first;
}

const struct harness_bucket *harness_program_bucket(const struct harness_program *program,
                                                    int32_t step, uint64_t index)
{
    const struct harness_buckets *buckets = harness_program_buckets(program, step);

    return index < buckets->count ? &buckets->items[index] : NULL;
}

uint32_t harness_program_bucket_of(const struct harness_program *program, int32_t step,
                                   uint32_t param)
{
    const struct harness_buckets *buckets = harness_program_buckets(program, step);

    for (size_t b = 0; b < buckets->count; b++) {
        for (uint32_t i = 0; i < buckets->items[b].param_count; i++) {
            if (buckets->items[b].params[i] == param) {
                return (uint32_t)b;
            }
        }
    }
    return UINT32_MAX;
}

size_t harness_program_bucket_max(const struct harness_program *program)
{
    return program->first.count > program->rebuilt.count ? program->first.count
                                                         : program->rebuilt.count;
}

int32_t harness_program_step_at(const struct harness_program *program, uint64_t seq)
{
    const struct harness_op *op = harness_program_at(program, seq);

    return op != NULL ? op->step : harness_program_end(program);
}
