ddprove_add_unit(NAME guest THREADS SOURCES guest/test_guest.c guest/test_results.c LIBS harness_watch harness_guest)
