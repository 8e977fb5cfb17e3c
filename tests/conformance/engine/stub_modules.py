"""Packages and compiled extensions that the engine imports, as modules that only import.

The engine then believes that its kernels are there, as on a machine with a card. A call into
one of them that would have to compute something gives back the stub itself.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from collections.abc import Sequence
from typing import Any

# Requirements of the engine's wheel, or of its kernels, each with a version new enough.
PACKAGES = {
    "triton": "3.7.0",
    "flashinfer": "0.7.2.post1",
    "flashinfer_cubin": "0.7.2.post1",
    "flashinfer_jit_cache": "0.7.2.post1",
    "numba": "0.65.0",
    "cutlass": "4.8.0",
    "quack": "0.6.5",
    "tilelang": "0.1.12",
    "tokenspeed_mla": "2.0.3",
    "humming": "0.1.19",
    "nvtx": "99.0",
    "timm": "99.0",
    "fastsafetensors": "99.0",
    "instanttensor": "99.0",
    "cudnn": "99.0",
    "torchvision": "99.0",
    "torchaudio": "99.0",
    "torchcodec": "99.0",
    "PyNvVideoCodec": "99.0",
    "cuda": "99.0",
    "tvm": "99.0",
}
# Stubs also where they are installed: they would look for a driver.
WITHOUT_DRIVER = ("triton",)
# Distributions whose version is asked for under another name than the module's.
DISTRIBUTIONS = {
    "flashinfer-python": "flashinfer",
    "flashinfer-cubin": "flashinfer_cubin",
    "flashinfer-jit-cache": "flashinfer_jit_cache",
    "triton": "triton",
    "numba": "numba",
    "nvidia-cutlass-dsl": "cutlass",
    "quack-kernels": "quack",
    "tilelang": "tilelang",
    "tokenspeed-mla": "tokenspeed_mla",
    "humming-kernels": "humming",
}
EXTENSIONS = (
    "vllm._C_stable_libtorch",
    "vllm._moe_C_stable_libtorch",
    "vllm._qutlass_C",
    "vllm._deepselect_C",
    "vllm._flashkda_C",
    "vllm._flashmla_C",
    "vllm._flashmla_extension_C",
    "vllm.cumem_allocator",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
    "vllm.third_party.deep_gemm",
)


def _same(cls: Any, *others: Any) -> Any:
    return cls


def _never(cls: Any, other: Any) -> bool:
    return False


class StubType(type):
    """The class of stub classes: every attribute, call and operation gives a stub."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return stub_class(f"{cls.__name__}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        # Seen on the stub itself only: a class of the engine that derives from it is real.
        if "is_stub" not in cls.__dict__:
            return super().__call__(*args, **kwargs)
        decorates = len(args) == 1 and not kwargs and _is_decorated(args[0])
        return args[0] if decorates else cls

    def __iter__(cls) -> Any:
        return iter(())

    def __len__(cls) -> int:
        return 0

    def __bool__(cls) -> bool:
        return True

    def __exit__(cls, *error: object) -> None:
        return None

    def __int__(cls) -> int:
        return 0

    def __index__(cls) -> int:
        return 0

    def __float__(cls) -> float:
        return 0.0


for _name in (
    *(
        f"__{side}{op}__"
        for side in ("", "r")
        for op in ("add", "sub", "mul", "truediv", "floordiv")
    ),
    *("__mod__", "__rmod__", "__pow__", "__rpow__", "__neg__", "__lshift__", "__rshift__"),
    *("__and__", "__or__", "__ror__", "__getitem__", "__enter__"),
):
    setattr(StubType, _name, _same)
for _name in ("__lt__", "__le__", "__gt__", "__ge__"):
    setattr(StubType, _name, _never)


def _is_decorated(value: object) -> bool:
    if isinstance(value, types.FunctionType | classmethod | staticmethod):
        return True
    return isinstance(value, type) and not isinstance(value, StubType)


def stub_class(name: str) -> Any:
    """A class that takes part in anything and computes nothing."""
    ignore = classmethod(lambda cls, **kwargs: None)
    namespace = {"is_stub": True, "__module__": "stub", "__init_subclass__": ignore}
    return StubType(name.rsplit(".", 1)[-1], (), namespace)


class StubModule(types.ModuleType):
    """A module whose every name is a stub class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = stub_class(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = StubModule(spec.name)
        module.__path__ = []
        module.__dict__["__version__"] = PACKAGES.get(spec.name, "99.0")
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        fill = _CONTENTS.get(module.__name__)
        if fill is not None:
            fill(module)


def _fill_triton(module: Any) -> None:
    module.cdiv = lambda a, b: -(-a // b)
    module.next_power_of_2 = lambda n: 1 << (int(n) - 1).bit_length() if n > 0 else 1


def _fill_triton_backends(module: Any) -> None:
    driver = type("Driver", (), {"is_active": staticmethod(lambda: True)})
    module.backends = {"nvidia": types.SimpleNamespace(driver=driver, compiler=None)}


def _fill_flashinfer_mla(module: Any) -> None:
    # The engine reads this signature to tell whether per-row scales of the cache are supported.
    class BatchMLAPagedAttentionWrapper:
        def run(self, *tensors: Any, ckv_scale_arr: Any = None) -> None:
            raise RuntimeError("no kernel runs here")

    module.BatchMLAPagedAttentionWrapper = BatchMLAPagedAttentionWrapper


def _tower(*args: Any, **kwargs: Any) -> Any:
    """A module of a vision tower, without weights. The engine reads its width only."""
    import torch

    tower = torch.nn.Module()
    tower.stands_in, tower.attn_pool, tower.embed_dim = True, None, 1152
    tower.blocks = torch.nn.ModuleList()
    return tower


def _fill_torchaudio(module: Any) -> None:
    import torch

    module.melscale_fbanks = lambda n_freqs, f_min, f_max, n_mels, sample_rate: torch.zeros(
        n_freqs, n_mels
    )


def _fill_timm(module: Any) -> None:
    module.create_model = _tower


def _fill_regnet(module: Any) -> None:
    module.RegStage = _tower


_CONTENTS = {
    "timm": _fill_timm,
    "timm.models.regnet": _fill_regnet,
    "torchaudio.functional": _fill_torchaudio,
    "triton": _fill_triton,
    "triton.backends": _fill_triton_backends,
    "flashinfer.mla": _fill_flashinfer_mla,
}


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        installed = {name for name in PACKAGES if _is_installed(name)}
        self.missing = set(PACKAGES) - (installed - set(WITHOUT_DRIVER))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        extension = any(fullname == e or fullname.startswith(f"{e}.") for e in EXTENSIONS)
        if extension or fullname.partition(".")[0] in self.missing:
            return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)
        return None


def _is_installed(name: str) -> bool:
    return importlib.machinery.PathFinder.find_spec(name) is not None


def install() -> None:
    """Let missing packages and all extensions import, and answer for their versions."""
    sys.meta_path.insert(0, _Finder())
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return real(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name in DISTRIBUTIONS:
                return PACKAGES[DISTRIBUTIONS[distribution_name]]
            raise

    importlib.metadata.version = version
