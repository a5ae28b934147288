ddprove_add_unit(NAME shrink SOURCES shrink/test_shrink.c shrink/test_bound.c
    LIBS harness_shrink harness_grammar harness_scenario)
