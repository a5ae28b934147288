ddprove_add_unit(NAME exec SOURCES exec/test_arm.c exec/test_adapter.c exec/test_ending.c exec/test_look.c exec/test_say.c exec/test_shared.c exec/test_port.c exec/test_starved.c
    LIBS harness_exec harness_scenario harness_plan)
