ddprove_add_unit(NAME inject
    SOURCES inject/test_inject.c inject/test_inject_action.c inject/test_inject_io.c
    LIBS harness_inject)
