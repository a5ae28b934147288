ddprove_add_unit(NAME checkpoint
    SOURCES checkpoint/test_state_dict.c checkpoint/test_prefix.c checkpoint/test_safetensors.c
    LIBS ddp_checkpoint)
