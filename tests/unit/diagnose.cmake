ddprove_add_unit(NAME diagnose
    SOURCES diagnose/test_compare.c diagnose/test_pickle.c diagnose/test_read.c diagnose/test_scan.c
    LIBS harness_diagnose)
