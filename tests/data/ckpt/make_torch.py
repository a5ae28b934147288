"""Writes the .pt files of this folder with PyTorch (2.15.0): python3 make_torch.py, in this folder.

They hold small numbers only; each is what a trainer may leave.
"""
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
with torch.no_grad():
    for i, tensor in enumerate(model.parameters()):
        tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape) + 100 * i)
torch.save(model.state_dict(), "before.pt", _use_new_zipfile_serialization=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
model.eval()(torch.ones(2, 4)).sum().backward()
optimizer.step()

torch.save(model.state_dict(), "state_dict.pt")
torch.save(model.state_dict(), "protocol4.pt", pickle_protocol=4)
torch.save(model.state_dict(), "legacy.pt", _use_new_zipfile_serialization=False)
checkpoint = {"model_state_dict": torch.nn.DataParallel(model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
              "loss": torch.tensor(0.5)}
torch.save(checkpoint, "wrapped.pt")
torch.save(checkpoint, "last.pt", _use_new_zipfile_serialization=False)
torch.save(model, "module.pt")

# Views: transposed, a part, one number for many; a storage that two share; types without a storage class.
shared = torch.arange(12, dtype=torch.float32)
torch.save({"transposed": torch.arange(6).reshape(2, 3).t(), "part": shared[3:7], "all": shared.reshape(3, 4), "column": shared.reshape(3, 4)[:, 1],
            "expanded": torch.ones(3).expand(2, 3), "parameter": torch.nn.Parameter(torch.ones(2)), "none": torch.zeros(0, 5),
            "flag": torch.tensor(True), "u16": torch.arange(3).to(torch.uint16), "f8": torch.ones(2).to(torch.float8_e4m3fn),
            "half": torch.ones(2, dtype=torch.float16), "bf16": torch.ones(2, dtype=torch.bfloat16), "i8": torch.full((1,), -3, dtype=torch.int8),
            "f64": torch.full((1,), 0.1, dtype=torch.float64)}, "views.pt")
