ddprove_add_unit(NAME guest THREADS SOURCES guest/test_guest.c LIBS harness_watch harness_guest)
