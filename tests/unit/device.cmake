ddprove_add_unit(NAME device
    SOURCES test_device.c test_math.c
    LIBS ddp_device)
ddprove_add_unit(NAME device_observer SOURCES test_device_observer.c LIBS ddp_device)
