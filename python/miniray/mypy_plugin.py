"""Plugin of mypy: `@miniray.remote` on a class, and the methods of handles. In mypy.ini or pyproject.toml:

    [mypy]
    plugins = miniray.mypy_plugin

mypy takes a decorated class for the class itself, without `remote`; pyright needs no plugin. With the plugin mypy also
knows the parameters and results of a handle's methods.
"""

from mypy.nodes import ARG_STAR2, MemberExpr
from mypy.plugin import Plugin
from mypy.types import AnyType, CallableType, Instance, Overloaded, Parameters, TypeOfAny, UnionType, get_proper_type

_MARK = "miniray"  # in the metadata of the classes that @remote decorates
_HANDLE = "miniray.ActorHandle"
_COROUTINES = ("typing.Coroutine", "typing.Awaitable")


class _MinirayPlugin(Plugin):
    def get_class_decorator_hook_2(self, fullname):
        return _mark if fullname == "miniray.remote" else None

    def get_function_hook(self, fullname):
        return _called if fullname == "miniray.remote" else None

    def get_class_attribute_hook(self, fullname):
        return {"remote": _remote, "options": _options}.get(fullname.rpartition(".")[2])

    def get_attribute_hook(self, fullname):
        return _method if fullname.startswith(f"{_HANDLE}.") else None


def _mark(context):
    context.cls.info.meta_fallback_to_any = True  # `remote`, `options` and `bind` are attributes
    context.cls.info.metadata[_MARK] = {}
    return True


def _called(context):
    """remote(Counter) as a call: mypy before 1.5 does not find the parameters of the constructor."""
    given = get_proper_type(context.arg_types[0][0]) if context.arg_types and context.arg_types[0] else None
    if not isinstance(given, CallableType) or not given.is_type_obj():
        return context.default_return_type
    return context.api.named_generic_type("miniray.ActorClass", [given.ret_type])


def _constructors(type_):
    """The signatures of an actor class's constructor; []: the type is not an actor class."""
    found = get_proper_type(type_)
    signatures = found.items if isinstance(found, Overloaded) else [found] if isinstance(found, CallableType) else []
    return [each for each in signatures if each.is_type_obj() and _MARK in each.type_object().metadata]


def _handle(context, signature):
    return context.api.named_generic_type(_HANDLE, [signature.ret_type])


def _remote(context):
    function = context.api.named_generic_type("builtins.function", [])
    made = [signature.copy_modified(arg_types=_or_references(context, signature.arg_types), fallback=function,
                                    ret_type=_handle(context, signature)) for signature in _constructors(context.type)]
    return context.default_attr_type if not made else made[0] if len(made) == 1 else Overloaded(made)


def _options(context):
    signatures = _constructors(context.type)
    if not signatures:
        return context.default_attr_type
    made = context.api.named_generic_type("miniray.ActorClass", [signatures[0].ret_type])
    plain = made.type.get_method("options").type
    return plain.copy_modified(arg_types=plain.arg_types[1:], arg_kinds=plain.arg_kinds[1:],
                               arg_names=plain.arg_names[1:], ret_type=made)


def _or_references(context, types):
    """The types, or references to their values."""
    reference = context.api.named_generic_type("miniray.ObjectRef", [AnyType(TypeOfAny.explicit)])
    return [UnionType.make_union([each, reference]) for each in types]


def _method(context):
    handle = get_proper_type(context.type)
    if not isinstance(context.context, MemberExpr) or not isinstance(handle, Instance) or len(handle.args) != 1:
        return context.default_attr_type
    name, actor = context.context.name, get_proper_type(handle.args[0])
    if not isinstance(actor, Instance) or name.startswith("__"):
        return context.default_attr_type
    found = get_proper_type(context.api.expr_checker.analyze_external_member_access(name, actor, context.context))
    if not isinstance(found, CallableType):
        return context.default_attr_type
    result = get_proper_type(found.ret_type)
    if isinstance(result, Instance) and result.type.fullname in _COROUTINES:
        result = result.args[-1]
    types = [each if kind == ARG_STAR2 else new for each, kind, new in
             zip(found.arg_types, found.arg_kinds, _or_references(context, found.arg_types))]
    parameters = Parameters(types, found.arg_kinds, found.arg_names, variables=found.variables)
    return context.api.named_generic_type("miniray._CheckedMethod", [parameters, result])


def plugin(version):
    """The entry point that mypy calls."""
    return _MinirayPlugin
