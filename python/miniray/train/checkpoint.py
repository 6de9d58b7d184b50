"""Weights in files: NumPy's own format (.npz) for arrays, torch's (.pt) for tensors."""

import os


def save_weights(weights, path):
    """Writes a list or dict of arrays or tensors, whole or not at all. The path, with .npz or .pt if it has neither."""
    values = list(weights.values()) if isinstance(weights, dict) else list(weights)
    is_torch = any(type(value).__module__.split(".")[0] == "torch" for value in values)
    path = os.fspath(path)
    if not path.endswith((".npz", ".pt")):
        path += ".pt" if is_torch else ".npz"
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            _write(weights, file, path.endswith(".pt"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return path


def _write(weights, file, is_torch):
    if is_torch:
        import torch
        torch.save(weights, file)
        return
    import numpy
    if isinstance(weights, dict):
        numpy.savez(file, **{f"dict:{name}": value for name, value in weights.items()})
    else:
        numpy.savez(file, **{f"list:{i}": value for i, value in enumerate(weights)})


def load_weights(path):
    """What save_weights has written: a list, or a dict."""
    if os.fspath(path).endswith(".pt"):
        import torch
        return torch.load(path, map_location="cpu")
    import numpy
    with numpy.load(path) as file:
        named = {name.split(":", 1)[1]: file[name] for name in file.files}
        return named if any(name.startswith("dict:") for name in file.files) else list(named.values())
