"""Files of a tree that a command reads or runs, through scripts and makefiles: all decide, the product does not."""

from collections.abc import Mapping

import pytest

from agent_harness.verification.changes import CandidateChanges, FileChange, Tree
from agent_harness.verification.command.named_files import EVERYTHING, Named, named_by
from agent_harness.verification.guard import survey
from agent_harness.verification.protected_files import of_command
from agent_harness.verification.verdict import Finding

NODE_TEST = '{"scripts": {"test": "node --test"}}'
HERE = '"$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"'


def named(command: str, files: Mapping[str, str]) -> Named:
    texts = {path: text.encode() for path, text in files.items()}
    return named_by(command, Tree(texts.keys(), texts.get, {}))


def findings_on(changes: CandidateChanges, command: str, files: Mapping[str, str]) -> tuple[Finding, ...]:
    texts = {path: text.encode() for path, text in files.items()}
    tree = Tree(texts.keys(), texts.get, {})
    return survey(changes, of_command(tree, named(command, files))).findings


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
        ("(cd sub && sh a.sh); x=$(cd sub; ls); sh b.sh", {"sub/a.sh": "", "b.sh": ""}, ...),
        ("timeout -s KILL 5 nice sh a.sh && eval 'sh b.sh'", {"a.sh": "", "b.sh": ""}, ...),
        ("sh <<E\nsh a.sh\nE\ncat > x.sh <<E\nsh b.sh\nE\nsh x.sh", {"a.sh": "", "b.sh": ""}, ...),
        ("command -v sh a.sh; cat <<E\nsh a.sh\nE", {"a.sh": ""}, set[str]()),
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
        ("[ $(sh app.sh 3) = 6 ]", {"app.sh": ". ./lib.sh; echo $(./b)", "lib.sh": "", "b": "#!/bin/sh"}, set[str]()),
        ("echo 3 | ./app | grep -q 6", {"app": "#!/bin/bash\nexec sh app"}, set[str]()),
        ("sh app.sh | sh norm.sh | grep 6", {"app.sh": "", "norm.sh": ""}, {"norm.sh"}),
        ("python app.py | python norm.py | grep 6", {"app.py": "", "norm.py": ""}, {"norm.py"}),
        ("sh run.sh | grep OK", {"run.sh": "make check", "Makefile": "check:\n\ttrue"}, {"run.sh"}),
        (
            "sh run.sh | tail -1",
            {"run.sh": "sh b.sh", "b.sh": "pytest tests", "tests/test_a.py": ""},
            {"run.sh", "b.sh"},
        ),
        ("sh ci/app.sh | grep OK", {"ci/app.sh": ""}, {"ci/app.sh"}),
        ("S=$(cat name); sh $S; for x in $(ls); do sh $x; done", {"a.sh": ""}, set[str]()),
        ("cat schema.sql checks/a.sql | sqlite3", {"checks/a.sql": "", "schema.sql": "the work"}, {"checks/a.sql"}),
        ("sqlite3 < checks/a.sql && ./app < checks/a.txt", {"checks/a.sql": "", "checks/a.txt": ""}, {"checks/a.sql"}),
        ("sh e2e.sh", {"e2e.sh": "node server.js & curl -f localhost\nkill $!", "server.js": "the work"}, {"e2e.sh"}),
        ("sh e2e.sh", {"e2e.sh": "sh a.sh &\nnode b.js &\nwait", "a.sh": "", "b.js": ""}, ...),
    ],
)
def test_what_decides(command: str, files: Mapping[str, str], decide: object) -> None:
    assert named(command, files).scripts == (frozenset(files) if decide is ... else decide)


STARTS = {
    "init.sh": ". ./env.sh\nmake -s up\nnode server.js\npython manage.py migrate\npython tools/check_ports.py | cat",
    "env.sh": "",
    "tools/check_ports.py": "",
    "server.js": "the work",
    "manage.py": "the work",
    "Makefile": "up:\n\tsh up.sh\n",
    "up.sh": "",
}


@pytest.mark.parametrize(
    ("command", "files", "tests"),
    [
        ("python3 -m unittest -q test_b", {"test_b.py": "", "test_m.py": ""}, {"test_b.py"}),
        ("python3 -m unittest pkg.test_b.T.test_x", {"pkg/test_b.py": "", "pkg/test_m.py": ""}, {"pkg/test_b.py"}),
        ("python3 -m unittest discover", {"test_b.py": ""}, {EVERYTHING}),
        (
            "python3 -m unittest discover -s tests -p 'check_*.py'",
            {"tests/check_a.py": "", "tests/b.py": "", "check_c.py": ""},
            {"tests", "tests/check_a.py"},
        ),
        ("python3 -m unittest discover --pattern=c_*.py", {"a/c_a.py": "", "d.py": ""}, {EVERYTHING, "a/c_a.py"}),
        ("npm test -- a.test.js", {"package.json": NODE_TEST, "a.test.js": ""}, {"a.test.js"}),
        ("npm t a.test.js", {"package.json": NODE_TEST, "a.test.js": ""}, {"a.test.js"}),
        ("npm test -w pkg", {"package.json": NODE_TEST, "pkg/a.test.js": ""}, {EVERYTHING}),
        ("yarn test a.test.js", {"package.json": '{"scripts": {"test": "jest"}}', "a.test.js": ""}, {"a.test.js"}),
        ("npx jest sum", {"lib/sum.test.js": "", "b.test.js": ""}, {"lib/sum.test.js"}),
        ("npx jest sum", {"b.test.js": ""}, {EVERYTHING}),
        ("sh run.sh a.test.js", {"run.sh": 'exec node --test "$@"', "a.test.js": ""}, {"a.test.js"}),
        ("sh run.sh", {"run.sh": 'exec node --test "$@"', "a.test.js": ""}, {EVERYTHING}),
        ("go test ./pkg", {"pkg/a_test.go": "", "b_test.go": ""}, {"pkg"}),
        ("go test ./...", {"pkg/a_test.go": "", "b_test.go": ""}, {EVERYTHING}),
    ],
)
def test_tests_that_a_command_names(command: str, files: Mapping[str, str], tests: set[str]) -> None:
    assert named(command, files).tests == tests


def test_scripts_that_set_up_are_found_and_what_they_start_is_the_work() -> None:
    texts = {path: text.encode() for path, text in STARTS.items()}
    tree = Tree(texts.keys(), texts.get, {})
    found = named_by("./init.sh", tree, sets_up=True)
    assert found.files == {"init.sh", "env.sh", "up.sh", "Makefile", "tools/check_ports.py"}
    assert named_by("python manage.py check", tree, sets_up=True).files == {"manage.py"}, "named by a person"


@pytest.mark.parametrize(
    ("command", "files", "new", "said"),
    [
        ("make", {"Makefile": "all:\n\ttrue\n"}, {"GNUmakefile": ""}, "read instead of Makefile"),
        ("make -C sub", {"sub/Makefile": "all:\n\ttrue\n"}, {"sub/makefile": ""}, "read instead of sub/Makefile"),
        ("make -f Makefile", {"Makefile": "all:\n\ttrue\n"}, {"GNUmakefile": ""}, None),
        ("make", {"Makefile": "-include a.mk\nall:\n\t$(RUN)\n"}, {"a.mk": "RUN = true\n"}, "RUN is set"),
        ("make", {"Makefile": "-include a.mk\nall:\n\t$(RUN)\n"}, {"a.mk": "clean:\n\ttrue\n"}, None),
        ("make", {"Makefile": "include a.mk\nall:\n\t$(RUN)\n"}, {"a.mk": "RUN = true\n"}, None),
        (
            "make",
            {"Makefile": "ifneq (,$(wildcard a.mk))\ninclude a.mk\nendif\nall:\n\t$(RUN)\n"},
            {"a.mk": "RUN = true\n"},
            "RUN is set",
        ),
        ("make", {"Makefile": "include m/*\nall:\n\tx\n", "m/a": ""}, {"m/b": "all:\n\ttrue\n"}, "recipe of all"),
        ("sh a.sh", {"a.sh": "[ -f b.sh ] && . ./b.sh"}, {"b.sh": "true"}, "runs it if it exists"),
        ("sh a.sh", {"a.sh": "if test -x ci/b; then ci/b; fi"}, {"ci/b": "true"}, "runs it if it exists"),
        ("sh a.sh", {"a.sh": "[ -f b.sh ] && . ./b.sh"}, {"b.sh": "# nothing\n"}, None),
        ("sh a.sh", {"a.sh": ". ./b.sh"}, {"b.sh": "true"}, None),
        ("sh a.sh", {"a.sh": "[ -f b.sh ]"}, {"b.sh": "true", "c.sh": "true"}, None),
    ],
)
def test_files_that_may_come(command: str, files: Mapping[str, str], new: Mapping[str, str], said: str | None) -> None:
    """Files that a command would read or run if they were there; somebody has to write those that it needs."""
    rows = [FileChange(path=path, status="A", after=text.encode()) for path, text in new.items()]
    changes = CandidateChanges(files=tuple(rows), before=frozenset(files), after=frozenset({*files, *new}))
    findings = findings_on(changes, command, files)
    assert [each.code for each in findings] == (["check_changed"] if said else [])
    assert said is None or said in findings[0].message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Settings.\nVERSION = 1.4.0\nFILES := a.c lib/b.c\n", None),
        ("VERSION = 1.4.0; true\n", "VERSION is set"),
        ("VERSION = $(shell true)\n", "VERSION is set"),
        ("VERSION = --help\n", "VERSION is set"),
        ("VERSION != echo 1\n", "VERSION is set"),
        ("RUN = true\n", "RUN is set"),
        ("VERSION = 1\nMAKEFLAGS += -i\n", "MAKEFLAGS is set"),
        ("VERSION = 1\n.SHELLFLAGS = -n\n", "the line '.SHELLFLAGS = -n'"),
        ("check:\n\ttrue\n", "recipe of check"),
        ("export VERSION\n", "the line 'export VERSION'"),
    ],
)
def test_a_new_file_that_the_item_names_may_set_values(text: str, said: str | None) -> None:
    files = {"Makefile": b"-include config.mk\ncheck:\n\t$(RUN) $(VERSION) $(FILES)\n"}
    tree = Tree(files.keys(), files.get, {})
    new = FileChange(path="config.mk", status="A", after=text.encode())
    changes = CandidateChanges(files=(new,), before=frozenset(files), after=frozenset({*files, new.path}))
    protection = of_command(tree, named_by("make check", tree), asked="config.mk defines VERSION = 1.4.0")
    findings = survey(changes, protection).findings
    assert [(said or "") in each.message for each in findings] == ([True] if said else [])


RULES = {
    "Makefile": "include mk/*.mk\nCASES = one\ncheck: lint\n\t$(RUN) $(CASES)\n",
    "mk/a.mk": "RUN = sh run.sh\nlint:\n\t./l.sh\n",
}


@pytest.mark.parametrize(
    ("path", "after", "said"),
    [
        ("mk/a.mk", "RUN = true\nlint:\n\t./l.sh\n", "RUN is set to another value"),
        ("mk/a.mk", "RUN = sh run.sh\nlint:\n\ttrue\n", "the recipe of lint has changed"),
        ("mk/a.mk", "RUN = sh run.sh\nlint:\n\t./l.sh\nMAKEFLAGS += -i\n", "MAKEFLAGS is set"),
        ("mk/a.mk", "RUN = sh run.sh\nlint:\n\t./l.sh\nclean:\n\trm -rf build\n", None),
        ("mk/a.mk", None, "it was deleted"),
        ("Makefile", RULES["Makefile"] + "clean:\n\trm -rf build\n", None),
        ("mk/a.mk", "first:\n\ttrue\nRUN = sh run.sh\nlint:\n\t./l.sh\n", None),
        ("Makefile", RULES["Makefile"].replace("include", "-include"), "the line '-include mk/*.mk'"),
    ],
)
def test_makefiles_that_are_included(path: str, after: str | None, said: str | None) -> None:
    files = {**RULES, "l.sh": "", "run.sh": ""}
    assert named("make check", files).files == {"Makefile", "mk/a.mk", "l.sh", "run.sh"}
    content = None if after is None else after.encode()
    change = FileChange(path=path, status="D" if after is None else "M", before=RULES[path].encode(), after=content)
    changes = CandidateChanges(files=(change,), before=frozenset(RULES), after=frozenset(RULES))
    findings = findings_on(changes, "make check", files)
    assert [each.severity for each in findings] == (["CRITICAL"] if said else [])
    assert said is None or said in findings[0].message
