ddprove_add_unit(NAME device
    SOURCES test_device.c test_math.c
    LIBS ddp_device)
