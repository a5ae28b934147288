"""What ddprove adds to a PyTorch program: loaded by `import torch` itself, and idle unless the environment asks."""
