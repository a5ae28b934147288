ddprove_add_unit(NAME scenario
    SOURCES scenario/test_scenario.c scenario/test_scenario_matrix.c scenario/test_scenario_broken.c scenario/test_scenario_choices.c scenario/test_scenario_keys.c
        scenario/test_scenario_guest.c
        scenario/test_exports.c
        scenario/test_scenario_schema.c
    LIBS harness_scenario harness_plan ddp_dep_jansson)
