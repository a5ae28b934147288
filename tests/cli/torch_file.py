"""Files in the layout of torch.save, written with the standard library alone.

An archive has a folder with data.pkl, byteorder, data/<number> for each storage and version, all stored as they are; the pickle
names a storage by a persistent id ('storage', type, key, location, elements), and builds a tensor with
torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks). Source: torch/serialization.py, _save.
"""
import collections
import io
import pickle
import struct
import sys
import types
import zipfile


def stub(module, name):
    """What pickle finds under that name; it is only named in what is written."""
    holder = sys.modules.setdefault(module, types.ModuleType(module))
    if not hasattr(holder, name):
        made = type(name, (), {"__module__": module, "__qualname__": name})
        setattr(holder, name, made)
    return getattr(holder, name)


def rebuild(*_):
    """Stands for torch's function."""


rebuild.__module__, rebuild.__qualname__, rebuild.__name__ = "torch._utils", "_rebuild_tensor_v2", "_rebuild_tensor_v2"
for part in ("torch", "torch._utils"):
    sys.modules.setdefault(part, types.ModuleType(part))
sys.modules["torch._utils"]._rebuild_tensor_v2 = rebuild


class Storage:
    """Floats that tensors share."""

    def __init__(self, key, values):
        self.key, self.values = key, values


class Tensor:
    """A view of a storage."""

    def __init__(self, storage, shape, stride, offset=0):
        self.args = (storage, offset, shape, stride, False, collections.OrderedDict())

    def __reduce__(self):
        return rebuild, self.args


class Pickler(pickle.Pickler):
    """As torch.save's."""

    def persistent_id(self, obj):
        if isinstance(obj, Storage):
            return "storage", stub("torch", "FloatStorage"), obj.key, "cpu", len(obj.values)
        return None


def save(path, obj, storages, name="archive", extra=()):
    """Writes obj, and the storages it has."""
    data = io.BytesIO()
    Pickler(data, protocol=2).dump(obj)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", data.getvalue())
        archive.writestr(f"{name}/byteorder", "little")
        for storage in storages:
            archive.writestr(f"{name}/data/{storage.key}", struct.pack(f"<{len(storage.values)}f", *storage.values))
        archive.writestr(f"{name}/version", "3\n")
        for entry, content in extra:
            archive.writestr(entry, content)
