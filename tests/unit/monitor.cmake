ddprove_add_unit(NAME monitor
    SOURCES monitor/test_monitor.c monitor/test_monitor_healthy.c monitor/test_monitor_conclusions.c
        monitor/test_monitor_device.c monitor/test_monitor_device_healthy.c
        monitor/test_monitor_device_model.c monitor/test_monitor_device_property.c
        monitor/test_monitor_device_rounds.c
        monitor/test_monitor_cut_print.c monitor/test_monitor_wait_snapshot.c
        monitor/test_monitor_sampler.c monitor/test_monitor_links.c monitor/test_monitor_ending.c
        monitor/monitor_cut.c
    LIBS harness_monitor)
