"""Makes the wheel of one system: it has the programs in bin/, and a tag that names the system."""
import os
import pathlib
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformWheel(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["HOLDFAST_PLATFORM"]
        build_data["shared_scripts"] = {str(path): path.name for path in pathlib.Path(self.root, "bin").iterdir()}
