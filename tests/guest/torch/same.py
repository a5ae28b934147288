"""Whether two state dictionaries are the same, bit for bit. Usage: same.py FILE FILE"""
import sys

import torch

one, other = (torch.load(path, weights_only=True) for path in sys.argv[1:3])
wrong = [name for name in {**one, **other} if name not in one or name not in other or
         not torch.equal(one[name].view(torch.uint8), other[name].view(torch.uint8))]
print("other:", *wrong)
sys.exit(bool(wrong) or not one)
