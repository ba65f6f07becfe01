"""What a command reads or runs of a tree, through scripts and makefiles: all of it decides, the product does not."""

from collections.abc import Mapping

import pytest

from agent_harness.verification.changes import CandidateChanges, FileChange, Tree
from agent_harness.verification.command.guard import findings_on
from agent_harness.verification.command.named_files import Named, named_by

HERE = '"$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"'


def named(command: str, files: Mapping[str, str]) -> Named:
    texts = {path: text.encode() for path, text in files.items()}
    return named_by(command, Tree(texts.keys(), texts.get, {}))


@pytest.mark.parametrize(
    ("command", "files", "decide"),
    [
        (
            "sh run.sh",
            {"run.sh": ". ./lib.sh\nsource env.sh", "lib.sh": "c() { ./b.sh; }", "env.sh": "", "b.sh": ""},
            ...,
        ),
        ("sh ci/run.sh", {"ci/run.sh": 'cd "$(dirname "$0")"\n. ./lib.sh', "ci/lib.sh": ""}, ...),
        ("sh ci/run.sh", {"ci/run.sh": 'cd "$(dirname -- "$0")/.."\n. ci/lib.sh', "ci/lib.sh": ""}, ...),
        (
            "sh ci/run.sh",
            {"ci/run.sh": 'D=$(dirname "$0")\n. "$D/lib.sh"; ${D}/b.sh', "ci/lib.sh": "", "ci/b.sh": ""},
            ...,
        ),
        ("bash ci/run.sh", {"ci/run.sh": f"D={HERE}\nsource $D/lib.sh", "ci/lib.sh": ""}, ...),
        ("bash ci/run.sh", {"ci/run.sh": 'source "${BASH_SOURCE%/*}/lib.sh"', "ci/lib.sh": ""}, ...),
        ("bash ci/run.sh", {"ci/run.sh": 'D=$(dirname "$(readlink -f "$0")"); . $D/lib.sh', "ci/lib.sh": ""}, ...),
        ("sh ci/run.sh", {"ci/run.sh": 'cd "$(git rev-parse --show-toplevel)"; sh ci/b.sh', "ci/b.sh": ""}, ...),
        ("S=a.sh; sh $S && sh ${S}", {"a.sh": ""}, ...),
        (
            "for each in cases/*.sh; do sh $each || exit 1; done",
            {"cases/a.sh": "", "cases/b.sh": ". cases/c", "cases/c": ""},
            ...,
        ),
        ("find cases -name '*.sh' -exec sh {} +", {"cases/a.sh": "", "cases/deep/b.sh": ""}, ...),
        ("find cases -name '*.sh' | xargs -n1 sh -e", {"cases/a.sh": ""}, ...),
        (
            "python tools/check.py",
            {"tools/check.py": "import rules", "tools/rules.py": "from . import more", "tools/more.py": ""},
            ...,
        ),
        ("python -m tools.check", {"tools/check.py": "from tools import rules", "tools/rules.py": ""}, ...),
        ("python ci/check.py", {"ci/check.py": "run(['sh', 'ci/x.sh'])", "ci/x.sh": "sh ci/y.sh", "ci/y.sh": ""}, ...),
        ("node ci/check.js", {"ci/check.js": "const r = require('./rules')", "ci/rules.js": ""}, ...),
        (
            "npm test",
            {"package.json": '{"scripts": {"test": "sh a.sh", "pretest": "./b.sh"}}', "a.sh": "", "b.sh": ""},
            {"a.sh", "b.sh"},
        ),
        ("python check.py", {"check.py": "import calc", "calc.py": "the work"}, {"check.py"}),
        (
            "python tools/check.py",
            {"tools/check.py": "from app import calc", "app/calc.py": "the work"},
            {"tools/check.py"},
        ),
        (
            "python tools/check.py",
            {"tools/check.py": "run(['python', 'calc.py'])", "calc.py": "the work"},
            {"tools/check.py"},
        ),
        ("S=$(cat name); sh $S; for x in $(ls); do sh $x; done", {"a.sh": ""}, set[str]()),
    ],
)
def test_what_decides(command: str, files: Mapping[str, str], decide: object) -> None:
    assert named(command, files).scripts == (frozenset(files) if decide is ... else decide)


RULES = {
    "Makefile": "include mk/*.mk\nCASES = one\ncheck: lint\n\t$(RUN) $(CASES)\n",
    "mk/a.mk": "RUN = sh run.sh\nlint:\n\t./l.sh\n",
}


@pytest.mark.parametrize(
    ("path", "after", "said"),
    [
        ("mk/a.mk", "RUN = true\nlint:\n\t./l.sh\n", "RUN is set to something else"),
        ("mk/a.mk", "RUN = sh run.sh\nlint:\n\ttrue\n", "the recipe of lint is another one"),
        ("mk/a.mk", "RUN = sh run.sh\nlint:\n\t./l.sh\nMAKEFLAGS += -i\n", "MAKEFLAGS is set"),
        ("mk/a.mk", "RUN = sh run.sh\nlint:\n\t./l.sh\nclean:\n\trm -rf build\n", None),
        ("mk/a.mk", None, "it was deleted"),
        ("Makefile", RULES["Makefile"] + "clean:\n\trm -rf build\n", None),
        ("Makefile", RULES["Makefile"].replace("include", "-include"), "the line '-include mk/*.mk'"),
    ],
)
def test_makefiles_that_are_included(path: str, after: str | None, said: str | None) -> None:
    found = named("make check", {**RULES, "l.sh": "", "run.sh": ""})
    assert found.files == {"Makefile", "mk/a.mk", "l.sh", "run.sh"}
    content = None if after is None else after.encode()
    change = FileChange(path=path, status="D" if after is None else "M", before=RULES[path].encode(), after=content)
    changes = CandidateChanges(files=(change,), before=frozenset(RULES), after=frozenset(RULES))
    findings = findings_on(changes, found)
    assert [each.severity for each in findings] == (["CRITICAL"] if said else [])
    assert said is None or said in findings[0].message
