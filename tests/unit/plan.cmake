ddprove_add_unit(NAME plan
    SOURCES test_plan.c test_program.c test_program_compare.c
    LIBS harness_plan)
