if(TARGET harness_judge)
    ddprove_add_unit(NAME verdict SOURCES test_verdict.c test_judge.c LIBS harness_judge)
endif()
