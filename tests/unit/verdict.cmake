if(TARGET harness_judge)
    ddprove_add_unit(NAME verdict SOURCES verdict/test_verdict.c judge/test_judge.c
        judge/test_expect.c judge/test_cause.c judge/test_cause_values.c
        judge/test_cause_probe.c judge/cause_bench.c
        LIBS harness_judge)
endif()
