ddprove_add_unit(NAME ckpt
    SOURCES ckpt/test_compare.c ckpt/test_dtype.c ckpt/test_file.c ckpt/test_strip.c ckpt/test_torch.c
    LIBS harness_ckpt ddp_checkpoint)
