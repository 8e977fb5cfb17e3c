OTHER_FAMILIES: dict[str, str] = {}
DROPPED: dict[str, str] = {}
PLUGINS: dict[str, str] = {}
