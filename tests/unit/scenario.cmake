ddprove_add_unit(NAME scenario
    SOURCES test_scenario.c test_scenario_matrix.c test_scenario_broken.c test_scenario_schema.c
    LIBS harness_scenario harness_plan ddp_dep_jansson)
