# The device contract is one set of cases for every device: an executable chooses its device by the
# file that implements bench_create_device.
set(ddp_device_contract device/device_bench.c device/test_device.c device/test_device_order.c device/test_math.c
    device/test_math_elementwise.c device/test_layers.c device/test_layers_move.c)

ddprove_add_unit(NAME device
    SOURCES ${ddp_device_contract} device/device_bench_cpu.c device/test_device_cpu.c
    LIBS ddp_device)
ddprove_add_unit(NAME device_observer
    SOURCES device/test_device_observer.c device/test_device_observer_hint.c device/observer_bench.c
    LIBS ddp_device)
# On the first CUDA card; without one every case of the contract is a skip that says why.
ddprove_add_unit(NAME device_cuda GPU PREFIX cuda.
    SOURCES ${ddp_device_contract} device/device_bench_cuda.c device/test_device_cuda.c
    LIBS ddp_cuda)
