"""Does something when a module has been imported. Never imports it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # every Python process under a check imports this file at its start: typing would cost more
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class AfterImport:
    """A finder that finds nothing itself, but acts once when a module has been executed."""

    def __init__(self, module: str, action: Callable[[Any], None]):
        self._module, self._action = module, action

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._module:
            return None
        spec = self._find_with_others(name, path, target)
        loader = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        # The loader stays the one that the module would have had; only this one instance's exec_module is another
        # for the one call that counts. A module is complete only when that call returns.
        def exec_module(module: Any) -> None:
            del loader.exec_module
            execute(module)
            self.stop()
            self._action(module)

        loader.exec_module = exec_module
        return spec

    def stop(self) -> None:
        """Takes the finder out; safe when another import has done so already."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _find_with_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                return spec
        return None


def after_import(module: str, action: Callable[[Any], None]) -> None:
    """Calls `action(the module)` now if the module is there, else when it has been imported."""
    if module in sys.modules:
        action(sys.modules[module])
    else:
        sys.meta_path.insert(0, AfterImport(module, action))
