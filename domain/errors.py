"""The root of the project's exceptions.

Each exception is named for the fact that it states, carries the facts as attributes, and is declared beside the value
or the port that it belongs to.  A message is written for the operator who reads it in ``kubectl describe pod``: it
says what failed and, where there is one, the way out.  No message ever contains a secret.
"""


class MemifError(Exception):
    """Root of everything that this project raises on purpose."""
