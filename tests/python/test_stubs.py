"""The stubs and the modules have the same names."""

import ast
import pathlib

import miniray


def names_of_stub():
    text = (pathlib.Path(miniray.__file__).parent / "__init__.pyi").read_text()
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            functions = ast.FunctionDef, ast.AsyncFunctionDef
            found[node.name] = {each.name for each in node.body if isinstance(each, functions)}
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = set()
        elif isinstance(node, ast.Assign):
            found[node.targets[0].id] = set()
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = set()
    return found


def test_every_stub_names_what_its_module_has():
    import importlib
    folder = pathlib.Path(miniray.__file__).parent
    for path in folder.rglob("*.pyi"):
        name = ".".join(("miniray", *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        module = importlib.import_module(name)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                assert hasattr(module, node.name) or name == "miniray", (name, node.name)


def test_the_package_says_that_it_is_typed():
    assert (pathlib.Path(miniray.__file__).parent / "py.typed").exists()


def test_every_name_has_its_type():
    stub = names_of_stub()
    assert {name for name in miniray.__all__ if name != "exceptions"} <= set(stub)


def test_every_type_has_its_name():
    from miniray.runtime_context import RuntimeContext
    for name, methods in names_of_stub().items():
        if name.startswith("_") or name == "BaseID":
            continue
        found = RuntimeContext if name == "RuntimeContext" else getattr(miniray, name)
        assert all(hasattr(found, method) for method in methods - {"__getattr__"}), name


def test_what_a_class_offers_is_typed():
    from miniray.runtime_context import RuntimeContext
    stub = names_of_stub()
    for cls in (miniray.ObjectRef, miniray.RemoteFunction, miniray.ActorMethod, miniray.ActorClass, RuntimeContext,
                miniray.ObjectRefGenerator):
        assert {name for name in vars(cls) if not name.startswith("_")} <= stub[cls.__name__], cls
