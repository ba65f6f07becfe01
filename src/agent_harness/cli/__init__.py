"""The command lines: parse, call one method of a front door, render. Nothing here decides."""
