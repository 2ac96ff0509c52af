"""For mypy, which reads it by ``[tool.mypy]``: an attribute of an ``nn.Module`` may be anything.

PyTorch declares them ``Tensor | Module``, so that every ``model.encoder.layers[0]`` of a Vision
Transformer that came from elsewhere, and every number kept in a module, would be an error.
"""

from collections.abc import Callable

from mypy.plugin import AttributeContext, Plugin
from mypy.types import AnyType, Instance, Type, TypeOfAny, UnionType, get_proper_type


class ModuleAttributes(Plugin):
    """Turns ``Tensor | Module`` as the type of an attribute into ``Any``, and touches nothing
    else."""

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type]:
        return anything


def anything(context: AttributeContext) -> Type:
    """``Any`` for what ``nn.Module.__getattr__`` declares, else what it was."""
    given = get_proper_type(context.default_attr_type)
    if isinstance(given, UnionType):
        names = {
            part.type.fullname
            for part in map(get_proper_type, given.items)
            if isinstance(part, Instance)
        }
        if names == {"torch._tensor.Tensor", "torch.nn.modules.module.Module"}:
            return AnyType(TypeOfAny.special_form)
    return given


def plugin(version: str) -> type[Plugin]:
    """The name that mypy looks for."""
    return ModuleAttributes
