"""What the library refuses, as exceptions."""


class Error(ValueError):
    """A call that cannot be answered; raised before any output is written.

    `fault` says what went wrong as far as a caller can act on it: "argument" (a parameter or a
    name), "shape", "dtype", "file", "unsupported" or "internal".
    """

    def __init__(self, message: str, fault: str = "argument") -> None:
        super().__init__(message)
        self.fault = fault

    def __reduce__(self):
        return type(self), (self.args[0], self.fault)


class Unsupported(Error, NotImplementedError):
    """Valid, but not on this backend, build or machine."""

    def __init__(self, message: str, fault: str = "unsupported") -> None:
        super().__init__(message, fault)
