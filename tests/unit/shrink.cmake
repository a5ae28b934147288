ddprove_add_unit(NAME shrink SOURCES shrink/test_shrink.c LIBS harness_shrink harness_scenario)
