"""A processor for model classes that ask for one, where the folder of a case has none.

The engine reads of it how pixels are scaled, which no figure of the KV cache turns on.
"""

from __future__ import annotations

import sys
from typing import Any


class ImageProcessor:
    """Scales pixels as most do."""

    do_rescale = True
    rescale_factor = 1 / 255
    do_normalize = True
    image_mean = (0.5, 0.5, 0.5)
    image_std = (0.5, 0.5, 0.5)


class Processor:
    """Has parts, and processes nothing."""

    image_processor = ImageProcessor()
    tokenizer: Any = None
    extra_special_tokens: Any = ()


def use_processor() -> None:
    """Let model classes have a processor where the library can make none of the folder."""
    name = "cached_processor_from_config"
    import vllm.transformers_utils.processor as processors

    real = getattr(processors, name)

    def processor(*args: Any, **kwargs: Any) -> Any:
        try:
            return real(*args, **kwargs)
        except (OSError, RuntimeError, TypeError, ValueError):
            return Processor()

    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("vllm") and hasattr(module, name):
            setattr(module, name, processor)
