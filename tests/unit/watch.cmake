ddprove_add_unit(NAME watch SOURCES watch/fake_rank.c watch/made_record.c watch/test_device.c watch/test_differ.c
        watch/test_launcher.c watch/drawn_job.c watch/test_circle.c watch/test_watch.c watch/test_record.c watch/test_conclude.c
        watch/test_left_out.c watch/test_gave_up.c watch/test_camps.c watch/test_rules.c watch/test_orders.c watch/test_messages.c watch/test_near.c watch/test_polls.c watch/test_device_groups.c watch/test_others.c
        watch/test_starved.c watch/test_late.c watch/test_update_less.c watch/test_buckets.c watch/test_sums.c
    LIBS harness_results harness_record)
