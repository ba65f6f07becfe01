"""A new feature with its failing test stub, as one commit. Source: features.md UAH-071, UAH-074, UAH-257, UAH-266."""

import os
import re
from collections import Counter
from collections.abc import Sequence

from agent_harness.errors import ConfigurationError, UsageError
from agent_harness.kernel import files
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import records
from agent_harness.protocols.features.escalation import after_session
from agent_harness.protocols.features.marks import override
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, FeatureList

STUB = 'import pytest\n\n\ndef test_{name}():\n    pytest.fail("Not implemented")\n'
SIZES = ((3, "small"), (5, "medium"))


def add(
    project: Project,
    description: str,
    *,
    category: str | None = None,
    test_file: str | None = None,
    steps: Sequence[str] = (),
    depends_on: Sequence[int] = (),
    verification_type: str | None = None,
) -> JsonObject:
    """Adds one feature behind the last id; the test file is named after it unless given.

    A ``.py`` test file that does not exist yet gets a failing stub. ``UsageError``, with nothing changed, when the
    features would not be valid with it.
    """
    text = " ".join(description.split())
    if not text:
        raise UsageError("A feature needs a description", hint='harness add-feature "User can ..."')
    override.refuse_unsafe(project)
    document = project.store.features()
    feature: JsonObject = {
        "id": document.next_id(),
        "category": category or "core",
        "description": text,
        "test_file": test_file or _test_file(document, text),
        "verification_steps": list(steps),
        "size_estimate": next((word for most, word in SIZES if len(steps) <= most), "large"),
    }
    if depends_on:
        feature["depends_on"] = list(depends_on)
    if verification_type and verification_type != "automated":
        feature["verification_type"] = verification_type
    feature["passes"] = False
    _check(project, document, feature)
    added = Feature(feature)
    stubs = _stub(project, added)
    try:
        commit = override.change(
            project,
            f"harness: {added.name} added",
            lambda found: found.record["features"].append(feature),
            also=stubs,
        )
    except BaseException:
        for name in stubs:
            (project.root / name).unlink(missing_ok=True)
        raise
    project.store.event("feature_added", feature_id=added.id, message=text)
    project.say(f"Added {added.name}: {text}\nTest file: {added.test_file}")
    for line in records.flags([added], max_steps=project.config.features.max_verification_steps):
        project.say(f"Warning: {line}")
    after_session.offer_split(project)
    return {"feature": feature, "stub": stubs, "commit": commit, "next": "harness run"}


def _check(project: Project, document: FeatureList, feature: JsonObject) -> None:
    before = records.problems(document, require_test_file=project.config.features.require_test_file)
    if before:
        raise ConfigurationError(before[0], hint=f"edit {project.features_name}", problems=before)
    found = [*(f.record for f in document.features), feature]
    after = records.problems(FeatureList({**document.record, "features": found}))
    if after:
        raise UsageError(after[0], hint="harness add-feature --help")


def _test_file(document: FeatureList, text: str) -> str:
    """A new file beside most of the other features' tests."""
    known = [f.test_path for f in document.features if f.test_file]
    if any(not file.endswith(".py") for file in known):
        raise UsageError("Name the feature's test file", hint="harness add-feature TEXT --test-file FILE")
    folder = Counter(os.path.dirname(file) for file in known).most_common(1)
    words = re.findall(r"[a-z0-9]+", text.lower())
    stem = "_".join(words)[:40].strip("_") or "feature"
    name = os.path.join(folder[0][0] if folder else "tests", f"test_{stem}.py").replace(os.sep, "/")
    number = 1
    while name in known:
        number += 1
        name = f"{name.removesuffix('.py').rstrip('0123456789').rstrip('_')}_{number}.py"
    return name


def _stub(project: Project, feature: Feature) -> list[str]:
    """The failing placeholder where the test file is Python and not there yet; what was made."""
    file = feature.test_path
    path = project.root / file
    if path.exists() or path.is_symlink() or not file.endswith(".py"):
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W", "_", path.stem.removeprefix("test_"))
    files.replace(path, STUB.format(name=name).encode())
    return [file]
