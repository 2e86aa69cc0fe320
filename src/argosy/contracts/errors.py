"""What Argosy raises when something outside it is wrong, and the exit code each kind leaves with.

An error's text is what the user reads: what, where, the value got, what is allowed, what to do next. Nothing here
formats or prints.
"""


class ArgosyError(ValueError):
    """Something outside Argosy is wrong; the text says what, where, what is allowed and what to do next.

    exit_code: what the command line leaves with.
    """

    exit_code = 1


class BadInputError(ArgosyError):
    """A file, flag or field that a person wrote is wrong."""

    exit_code = 2


class NeverFitsError(ArgosyError):
    """The job can't run on this fleet, whatever else is free."""

    exit_code = 3


class UserCodeError(ArgosyError):
    """What the user brought (data, model, script) failed while running."""

    exit_code = 4


class InfrastructureError(ArgosyError):
    """A machine, process, port, disk or link failed."""

    exit_code = 5


class InterruptedByUserError(ArgosyError):
    """A person stopped it (Ctrl-C or SIGTERM)."""

    exit_code = 130
