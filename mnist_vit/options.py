"""Options of a job, each written once: type, default, range and one sentence in a dataclass.

Functions, validation, stored settings and the command line read them from there. No torch here.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Collection
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Annotated, Any, ParamSpec, TypeVar

from .errors import check_range, check_sizes, nearest, unknown

P = ParamSpec("P")
R = TypeVar("R")
O = TypeVar("O")  # noqa: E741, the options
C = TypeVar("C")


@dataclass(frozen=True)
class Option:
    """What a field's type does not say; stands in ``Annotated[type, Option(...)]``.

    Attributes:
        text: a sentence in terms that hold for Python and for the command line.
        in_python: what else may be given in Python.
        low, high: the range of a number.
        names: known names, listed in the help; other values are possible, such as a path.
        choices: the values of a str, where they are not in its type.
        metavar: the placeholder in the help.
        only_python: not an option of the command line.
    """

    text: str
    in_python: str = ""
    low: float | None = None
    high: float | None = None
    names: Collection[str] = ()
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    only_python: bool = False


@dataclass(frozen=True)
class Described:
    """A field of options, read from its annotation.

    ``kind`` is the type of its value on the command line; ``default`` is MISSING if there is none.
    """

    name: str
    annotation: Any
    kind: type
    choices: tuple[str, ...]
    default: Any
    keyword_only: bool
    option: Option


def described(options: Any) -> dict[str, Described]:
    """The fields of a dataclass of options, those that may be given by position first."""
    found = [_describe(field) for field in fields(options)]
    found.sort(key=lambda one: one.keyword_only)
    return {one.name: one for one in found}


def _describe(field: Field) -> Described:
    annotation, option = typing.get_args(field.type)
    parts = typing.get_args(annotation) or (annotation,)
    choices = option.choices
    if typing.get_origin(annotation) is typing.Literal:
        choices = parts
    elif typing.get_origin(parts[0]) is typing.Literal:
        choices = typing.get_args(parts[0])
    kind = parts[0] if parts[0] in (bool, int, float) else str
    return Described(
        field.name, annotation, kind, choices, field.default, bool(field.kw_only), option
    )


class Checked:
    """Validates the values of a dataclass of options by its fields."""

    def __post_init__(self) -> None:
        for one in described(self).values():
            value = getattr(self, one.name)
            if value is not None or one.default is not None:
                _check(one, value)


def _check(one: Described, value: Any) -> None:
    low, high = one.option.low, one.option.high
    if one.choices and value not in one.choices:
        if len(one.choices) == 1:
            raise ValueError(f'{one.name} must be "{one.choices[0]}" or left out, got {value!r}')
        raise ValueError(unknown(one.name, value, one.choices))
    if low is None:
        return
    if one.kind is float or high is None:
        check = check_sizes if high is None else functools.partial(check_range, low, high)
        check(**{one.name: value})
    elif not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{one.name} must be a whole number from {low} to {high}, got {value!r}")


def undecided(options: type[C]) -> type[C]:
    """Class decorator, to be applied before ``dataclass``: inherited fields may be left out.

    Their default becomes None, which stands for "not given"; what is then used is decided by the
    job. Type checkers see the types of the fields where they are written.
    """
    for one in fields(typing.cast(Any, options)):
        annotation, option = typing.get_args(one.type)
        options.__annotations__[one.name] = Annotated[annotation | None, option]
        setattr(options, one.name, field(default=None, kw_only=True))
    return options


def make(options: Callable[..., O], name: str, *values: Any, **keywords: Any) -> O:
    """Build the options from the arguments of a call of the job ``name``.

    Raises TypeError for arguments that do not fit, in the name of the job; it names the keyword
    that is most similar to an unknown one.
    """
    known = [field.name for field in fields(typing.cast(Any, options))]
    for keyword in keywords:
        if keyword not in known:
            raise TypeError(f"{name}() has no keyword {keyword}{nearest(keyword, known)}")
    try:
        inspect.signature(options).bind(*values, **keywords)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    return options(*values, **keywords)


def taking(options: Callable[P, O]) -> Callable[[Callable[[O], R]], Callable[P, R]]:
    """Decorator: a function of one object of options takes the object's fields as its keywords.

    ``@taking(Recipe)`` turns ``train(recipe)`` into ``train(epochs=20, ...)``, which builds the
    ``Recipe`` itself. Editors and mypy see the keywords through ``P``; ``help`` and Jupyter see
    them in the signature and in the docstring, which are made from the fields.
    """

    def decorate(job: Callable[[O], R]) -> Callable[P, R]:
        @functools.wraps(job)
        def call(*values: P.args, **keywords: P.kwargs) -> R:
            return job(make(options, job.__name__, *values, **keywords))

        # call.__signature__, which mypy does not know
        vars(call)["__signature__"] = _signature(options, job)
        call.__doc__ = _docstring(options, job)
        return call

    return decorate


def _signature(options: Any, job: Callable) -> inspect.Signature:
    """The fields of the options as parameters, and what the job returns."""
    parameters = [_parameter(one) for one in described(options).values()]
    return inspect.Signature(parameters, return_annotation=job.__annotations__.get("return"))


def _docstring(options: Any, job: Callable) -> str:
    """The docstring of the options, a line for each field, and the docstring of the job."""
    lines = [_line(one) for one in described(options).values()]
    return "\n".join([f"{inspect.getdoc(options)}\n\nArgs:", *lines, f"\n{inspect.getdoc(job)}"])


def _parameter(one: Described) -> inspect.Parameter:
    default = inspect.Parameter.empty if one.default is MISSING else one.default
    kinds = inspect.Parameter
    how = kinds.KEYWORD_ONLY if one.keyword_only else kinds.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(one.name, how, default=default, annotation=one.annotation)


def _line(one: Described) -> str:
    """A line of a docstring."""
    more = f"; in Python {one.option.in_python}" if one.option.in_python else ""
    return f"    {one.name}: {one.option.text}{more}."
