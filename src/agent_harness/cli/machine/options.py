"""Rule for repeated options: an option that names several things repeats and takes commas, any other is given once.

It is for the commands that click reads; ``cli.verbs`` has the same rule for the others.
"""

import os
from typing import Any

import click

from agent_harness.cli.verbs import parts


class Several(click.Option):
    """Option that names several things: repeated, or with commas. An existing path is one thing."""

    def __init__(self, *words: Any, **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.multiple = True
        self.help = f"{(self.help or '').removesuffix('.')}; repeat it, or use commas."

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            value = [name for each in value for name in ([each] if os.path.exists(str(each)) else parts(str(each)))]
        return super().type_cast_value(ctx, value)


def once(parser: Any, ctx: click.Context) -> Any:
    """Return the parser of a command, changed to refuse an option of one value that is given again."""
    parse = parser.parse_args

    def parse_args(args: list[str]) -> Any:
        given, rest, order = parse(args)
        for each in order:
            single = isinstance(each, click.Option) and not (each.multiple or each.is_flag or each.count)
            if single and order.count(each) > 1:
                word: str = each.opts[-1]
                raise click.BadOptionUsage(word, f"Option '{word}' takes one value and was given more than once.", ctx)
        return given, rest, order

    parser.parse_args = parse_args
    return parser


def strict(command: click.Command) -> click.Command:
    """Return the command, and all of a group, each with such a parser."""
    if "make_parser" not in vars(command):
        made = command.make_parser
        vars(command)["make_parser"] = lambda ctx: once(made(ctx), ctx)
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        strict(each)
    return command
