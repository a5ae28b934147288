ddprove_add_unit(NAME exec SOURCES exec/test_arm.c exec/test_adapter.c
    LIBS harness_exec harness_scenario harness_plan)
