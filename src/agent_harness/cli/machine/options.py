"""Rule for repeated options of click commands: only a list option may be repeated, or take values with commas.

``cli.verbs`` implements this rule for the commands that do not use click."""

import os
from typing import Any

import click

from agent_harness.cli.verbs import STYLE, parts


class Several(click.Option):
    """Option that may be repeated. Its value may also be a comma-separated list."""

    def __init__(self, *words: Any, **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.multiple = True
        self.help = f"{(self.help or '').removesuffix('.')}; repeat it, or use commas."

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            # the path of an existing file may contain commas
            value = [name for each in value for name in ([each] if os.path.exists(str(each)) else parts(str(each)))]
        return super().type_cast_value(ctx, value)


def once(parser: Any, ctx: click.Context) -> Any:
    """Make the parser refuse a second value for an option that takes one value."""
    parse = parser.parse_args

    def parse_args(args: list[str]) -> Any:
        given, rest, order = parse(args)
        for each in order:
            single = isinstance(each, click.Option) and not (each.multiple or each.is_flag or each.count)
            if single and order.count(each) > 1:
                word: str = each.opts[-1]
                raise click.BadOptionUsage(word, STYLE.wordings["twice"].format(word=word), ctx)
        return given, rest, order

    parser.parse_args = parse_args
    return parser


def strict(command: click.Command) -> click.Command:
    """Make a command and its subcommands refuse a second value for single-value options."""
    if "make_parser" not in vars(command):
        made = command.make_parser
        vars(command)["make_parser"] = lambda ctx: once(made(ctx), ctx)
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        strict(each)
    return command
