"""`harness health`: features, tests, lint and file sizes, measured now on what is in the work tree.

Source: features.md UAH-052, UAH-438..442, C36, C52.
"""

from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import records, status
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.verdict import proven, quality
from agent_harness.protocols.features.verdict.judge import Judge
from agent_harness.verification.workspace import clear_leftovers


def measure(project: Project) -> JsonObject:
    """Every figure, and the lines for a person; changes nothing in the project.

    Tests of features that are still open do not count (C23).
    """
    project.require_initialised()
    clear_leftovers(project.root)
    document = project.store.features()
    passing, total = document.counts()
    judge = Judge(project)
    with judge.tree() as commit:
        suite, lint = judge.suite(commit), judge.lint(commit)
        tests = [f.test_file for f in document.features]
        sizes = quality.file_sizes(project.git, commit, 0, {}, tests)["files"]
    counted = proven.not_open(document, suite.failing)
    most = project.config.quality.max_file_lines
    score = status.weigh(
        features=(passing, total),
        tests=(len(suite.passing), len(suite.passing) + len(counted)),
        lint_errors=lint.errors,
        lines=[row["lines"] for row in sizes.values()],
        max_lines=most,
    )
    found = {
        "project": str(document.project or project.config.project.name),
        "features": {"passing": passing, "total": total, "percent": records.percent(passing, total)},
        "tests": {
            "passing": len(suite.passing),
            "total": len(suite.passing) + len(counted),
            "percent": records.percent(len(suite.passing), len(suite.passing) + len(counted)),
            "problem": suite.problem,
        },
        "lint": {"errors": lint.errors, "warnings": lint.warnings, "problem": lint.problem},
        "files": {"count": len(sizes), "large": quality.large_files(sizes, most), "max_lines": most},
        "score": round(score, 3),
        "word": status.health_word(score),
        "next_cleanup_after": quality.next_cleanup(passing, project.config.quality.cleanup_interval),
    }
    project.say("\n".join(_lines(found)))
    return found


def _lines(found: JsonObject) -> list[str]:
    features, tests, lint, files = found["features"], found["tests"], found["lint"], found["files"]
    rows = [
        f"Project: {found['project']}\n",
        f"FEATURES: {features['passing']}/{features['total']} passing ({features['percent']}%)",
        f"TESTS: {tests['passing']}/{tests['total']} passing ({tests['percent']}%)",
        f"LINT: {lint['errors']} errors, {lint['warnings']} warnings",
    ]
    rows += [f"  {part['problem']}" for part in (tests, lint) if part["problem"]]
    rows.append("\nFILE HEALTH:")
    for row in files["large"]:
        advice = "too large, split it" if row["lines"] > files["max_lines"] else "consider splitting"
        rows.append(f"  ⚠ {row['path']} ({row['lines']} lines, {advice})")
    rest = files["count"] - len(files["large"])
    rows.append(f"  ✓ {'All other' if files['large'] else 'All'} files under the limit ({rest})")
    rows.append(f"\nOVERALL HEALTH: {found['word']}")
    rows.append(f"Next cleanup due: After Feature #{found['next_cleanup_after']}")
    return rows
