"""Parser for makefiles that runs nothing, and a comparison of two versions of a makefile.
The parser understands rules with recipes, and variables. All other lines must stay unchanged."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

__all__ = ["DEFAULT_GOAL", "Makefile", "Rule", "weakened"]
DEFAULT_GOAL = ".DEFAULT_GOAL"  # among the goals: make is called without one
_RULE = re.compile(r"(?P<targets>[^\t:=#][^:=#]*?)\s*::?(?!=)\s*(?P<rest>.*)$")
_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)\s*(?:\+|\?|::?|!)?=\s*(?P<value>.*)$")
_USED = re.compile(r"\$[({]([\w.-]+)[)}]|\$(\w)")
_NAME = re.compile(r"[\w./%+$(){}][\w./%+$(){}:-]*$")
_PLAIN = re.compile(r"[ :?+]=(?: [\w./+:][\w./+:-]*)*$")  # a value without options, and that means nothing to a shell
_STEERING = frozenset({"SHELL", "MAKEFLAGS", "MAKE", "MFLAGS", "MAKEFILES", "VPATH", "PATH", "CURDIR"})
_MOST_TARGETS = 500
_INCLUDES = frozenset({"include", "-include", "sinclude"})


@dataclass(frozen=True, slots=True)
class Rule:
    targets: tuple[str, ...]
    needs: tuple[str, ...]
    recipe: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Makefile:
    """Rules, variables and all other lines of a makefile."""

    rules: tuple[Rule, ...]
    variables: Mapping[str, str]  # the last assignment of each, as written
    others: tuple[str, ...]  # every other line: conditions, includes, exports

    @classmethod
    def parse(cls, text: str) -> "Makefile":
        """Parse a makefile. Lines with invalid syntax raise no error."""
        rules: list[tuple[str, str, list[str]]] = []
        variables: dict[str, str] = {}
        others: list[str] = []
        recipe: list[str] | None = None
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("\t") and recipe is not None:
                recipe.append(line.strip())
                continue
            stripped = line.split("#")[0].strip()
            if not stripped:
                continue
            recipe = None
            if variable := _VARIABLE.match(stripped):
                variables[variable["name"]] = " ".join(stripped[variable.start("name") :].split())
            elif rule := _RULE.match(stripped):
                needs, _, first = rule["rest"].partition(";")
                recipe = [first.strip()] if first.strip() else []
                rules.append((rule["targets"], needs, recipe))
            else:
                others.append(stripped)
        read = (Rule(tuple(targets.split()), tuple(needs.split()), tuple(lines)) for targets, needs, lines in rules)
        return cls(tuple(read), variables, tuple(others))

    def includes(self) -> list[tuple[str, bool]]:
        """Return each included file, with True if make accepts that the file is missing."""
        lines = (line.split() for line in map(self._expanded, self.others))
        found = (words for words in lines if words and words[0] in _INCLUDES)
        asks = any("$(wildcard" in line for line in self.others)
        return [(word, asks or words[0] != "include") for words in found for word in words[1:]]

    def first_goal(self) -> list[str]:
        default = self.variables.get(DEFAULT_GOAL, "").rpartition("=")[2].split()
        named = (target for rule in self.rules for target in rule.targets if not target.startswith("."))
        return default or list(named)[:1]

    def reached(self, goals: Collection[str]) -> list[Rule]:
        """Return the rules that make may run for these goals, including the rules of prerequisites."""
        wanted, queue = set(goals), list(goals)
        while queue and len(wanted) < _MOST_TARGETS:
            target = queue.pop()
            needs = chain.from_iterable(
                self._expanded(" ".join(rule.needs)).split() for rule in self.rules if _makes(rule, target)
            )
            fresh = {*needs} - wanted
            wanted |= fresh
            queue += sorted(fresh)
        return [rule for rule in self.rules if any(_makes(rule, target) for target in wanted)]

    def recipes(self, goals: Collection[str]) -> list[str]:
        """Return the recipes that make may run for these goals, as shell code with expanded variables."""
        said = lambda line: self._expanded(line).replace("$$", "$").lstrip("@-+ ")  # noqa: E731
        return ["\n".join(map(said, rule.recipe)) for rule in self.reached(goals)]

    def _expanded(self, text: str) -> str:
        for _ in range(5):
            replaced = _USED.sub(lambda match: self._value(match[1] or match[2], match[0]), text)
            if replaced == text or len(replaced) > 100_000:
                break
            text = replaced
        return text

    def _value(self, name: str, written: str) -> str:
        if name == "MAKE":
            return "make"
        found = _VARIABLE.match(self.variables.get(name, ""))
        return found["value"] if found else written


def weakened(before: str, after: str, goals: Collection[str], *, sets_values: bool = False) -> str | None:
    """Return how a changed makefile weakens the rules for these goals, or None if it weakens none."""
    old, new = Makefile.parse(before), Makefile.parse(after)
    wanted = goals or {DEFAULT_GOAL, *old.first_goal()}
    return next(chain(_rules(old, new, wanted), _variables(old, new, sets_values), _lines(old, new)), None)


def _rules(old: Makefile, new: Makefile, goals: Collection[str]) -> Iterator[str]:
    known = old.reached(goals)
    if DEFAULT_GOAL in goals and old.first_goal()[:1] != new.first_goal()[:1]:
        yield "the first goal has changed"
    for target in sorted({target for rule in known for target in rule.targets}):
        was = [rule for rule in known if target in rule.targets]
        now = [rule for rule in new.rules if target in rule.targets]
        if [rule.recipe for rule in was if rule.recipe] != [rule.recipe for rule in now if rule.recipe]:
            yield f"the recipe of {target} has changed"
        elif not _grown([n for rule in was for n in rule.needs], [n for rule in now for n in rule.needs]):
            yield f"{target} has fewer prerequisites"
    for rule in new.rules:
        if rule not in old.rules and any(t.startswith(".") and t != ".PHONY" for t in rule.targets):
            yield f"{rule.targets[0]} changes how make works"


def _variables(old: Makefile, new: Makefile, sets_values: bool) -> Iterator[str]:
    used = {a or b for rule in old.rules for line in (*rule.needs, *rule.recipe) for a, b in _USED.findall(line)}
    used |= {a or b for text in old.variables.values() for a, b in _USED.findall(text)}
    leading = {
        a or b
        for rule in old.rules
        for line in rule.recipe
        for a, b in _USED.findall((line.lstrip("@-+ ").split() or [""])[0])
    }
    for name, text in old.variables.items():
        now = new.variables.get(name)
        if name in used and now != text and not (now and name not in leading and _lengthened(text, now)):
            yield f"{name} is set to another value"
    for name in new.variables.keys() - old.variables.keys():
        is_value = sets_values and name not in leading and _PLAIN.search(new.variables[name])
        if (name in used and not is_value) or name in _STEERING or name.startswith("."):
            yield f"{name} is set"


def _lines(old: Makefile, new: Makefile) -> Iterator[str]:
    if old.others != new.others:
        yield next(
            (
                f"the line '{line[:60]}'"
                for line in (*new.others, *old.others)
                if (line in old.others) != (line in new.others)
            ),
            "the order of its lines",
        )


def _lengthened(before: str, after: str) -> bool:
    more = after.removeprefix(before).split()
    return after.startswith(f"{before} ") and all(_NAME.match(word) for word in more)


def _grown(before: Sequence[str], after: Sequence[str]) -> bool:
    rest = iter(after)
    return all(any(word == other for other in rest) for word in before)


def _makes(rule: Rule, target: str) -> bool:
    return any(
        target == each or ("%" in each and re.fullmatch(re.escape(each).replace("%", ".+"), target))
        for each in rule.targets
    )
