ddprove_add_unit(NAME monitor
    SOURCES test_monitor.c test_monitor_healthy.c test_monitor_watch.c
        test_monitor_device.c test_monitor_device_healthy.c test_monitor_device_model.c
        test_monitor_device_property.c test_monitor_explain.c test_monitor_picture.c monitor_cut.c
    LIBS harness_monitor)
