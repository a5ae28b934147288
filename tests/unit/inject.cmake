ddprove_add_unit(NAME inject
    SOURCES test_inject.c test_inject_action.c
    LIBS harness_inject)
