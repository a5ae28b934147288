ddprove_add_unit(NAME watch SOURCES watch/fake_rank.c watch/test_device.c watch/test_differ.c watch/test_watch.c LIBS harness_watch)
