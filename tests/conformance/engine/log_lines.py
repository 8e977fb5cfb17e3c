"""What the engine logs while it answers."""

from __future__ import annotations

import logging
import sys

import vllm.logger as engine_logger

_ONCE = ("_print_debug_once", "_print_info_once", "_print_warning_once", "_print_error_once")


class LogLines(logging.Handler):
    """Keeps each line as 'LEVEL module: text'."""

    def __init__(self) -> None:
        super().__init__(level=logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")

    def attach(self) -> None:
        """Be the engine's only handler, whatever it has set up since."""
        logger = logging.getLogger("vllm")
        logger.handlers = [self]
        logger.setLevel(logging.INFO)
        logger.propagate = logger.disabled = False

    def restart(self) -> None:
        """Forget all lines, and let the engine say again what it says once."""
        for name in _ONCE:
            once = getattr(engine_logger, name, None)
            if once is not None:
                once.cache_clear()
        self.attach()
        self.lines.clear()


LOG = LogLines()


def take_over() -> None:
    """Keep the handler where the engine sets its logging up anew."""
    name = "_configure_vllm_root_logger"
    real = getattr(engine_logger, name, None)
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("vllm") and real and getattr(module, name, None) is real:
            setattr(module, name, lambda *args, **kwargs: LOG.attach())
    LOG.attach()
