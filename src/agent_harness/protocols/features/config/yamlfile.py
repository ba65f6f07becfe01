"""A YAML file as plain JSON values, for state that a person has rewritten."""

import json
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from agent_harness.errors import StateDamaged


def read_object(path: str) -> dict[str, Any]:
    """The mapping in a YAML file; ``StateDamaged`` when it does not parse or holds something else."""
    try:
        with open(path, encoding="utf-8") as file:
            found = YAML(typ="safe", pure=True).load(file)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise StateDamaged(f"{path} does not parse: {str(error).splitlines()[0]}") from None
    if not isinstance(found, dict):
        raise StateDamaged(f"{path} holds no mapping")
    return json.loads(json.dumps(found, default=str))
