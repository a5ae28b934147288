ddprove_add_unit(NAME plan
    SOURCES plan/test_plan.c plan/test_program.c plan/test_program_compare.c
        plan/test_posted.c
    LIBS harness_plan)
