"""Actor classes: the result of @remote on a class."""

import types

from miniray import _core
from miniray._actors import methods as _methods
from miniray._core_api import api as _api, local_mode as _local_mode, options as _options, signature as _signature
from miniray._core_api.tracebacks import public
from miniray._serialize import pickle as _pickle


def make_class(cls, options):
    """The ActorClass of a class with these options."""
    if issubclass(cls, BaseException):
        raise TypeError(f"{cls.__name__} is an exception class and cannot be an actor class")
    made = ActorClass(cls, dict(options))
    made._learn()
    return made


class ActorClassInheritanceException(TypeError):
    """A class inherits from an actor class."""


@public
class ActorClass:
    """A class whose instances are actors: `C.remote(…)` creates one."""

    __class_getitem__ = classmethod(types.GenericAlias)  # ActorClass[Counter], for annotations

    def __init__(self, cls, options, *inherited):
        if inherited:  # class Derived(ActorClass)
            raise ActorClassInheritanceException(
                f"Inheriting from actor classes is not currently supported. {cls} does: write the common part as a "
                "plain class, and make both of them actors")
        self._class = cls
        self._options = options
        self._code = self._about = None
        self._plan = _options.actor_options(options)
        self._methods = self._check = None
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__doc__ = cls.__doc__
        self.__module__ = cls.__module__

    def _learn(self):
        """Reads the methods and the constructor of the class, once the class is complete. A class that refers to itself
        and came from another process is not complete yet when its ActorClass is created."""
        if self._check is None:
            self._methods = _methods.of_class(self._class, self._options)
            self._check = _checker(self._class)

    def options(self, **options):
        """The same class with other options for its actors."""
        made = ActorClass(self._class, {**self._options, **options})
        changing = {"max_concurrency", "concurrency_groups", "runtime_env", "max_task_retries", "max_pending_calls"}
        same = all(fact(self._options) == fact(made._options) for fact in (_options.threads, _options.captured_by))
        if same and not options.keys() & changing:
            made._code, made._about = self._code, self._about
        return made

    def remote(self, *args, **kwargs):
        """Creates an actor and returns its handle at once."""
        self._learn()
        self._check(args, kwargs)
        if self._options.get("get_if_exists"):
            return self._get_or_create(args, kwargs)
        return self._create(args, kwargs)

    def bind(self, *args, **kwargs):
        """A node of a graph that is executed later (miniray.dag)."""
        from miniray import dag
        self._learn()
        self._check(args, kwargs)
        return dag.ClassNode(self, args, kwargs)

    @property
    def _default_options(self):
        return self._options

    def _remote(self, args=None, kwargs=None, **options):
        return self.options(**options).remote(*args or (), **kwargs or {})

    def _create(self, args, kwargs):
        if _local_mode.is_on():
            from miniray._actors import local_calls as _local_calls
            return _local_calls.create(self._class, self._methods, self._plan, args, kwargs)
        code = self._refusal()
        if code is not None:
            plan = (-1.0, 0.0, None, 0, 0, *self._plan[5:])
            return _core.create_actor(self.__name__, code, plan, (), {}, self._methods, _methods.dump(self.__name__,
                                                                                                  self._methods))
        if self._code is None:
            self._code = _pickle.dump_function(self._made_of())
            self._about = _methods.dump(self.__name__, self._methods)
        return _core.create_actor(self.__name__, self._code, self._plan, args, kwargs, self._methods, self._about)

    def _refusal(self):
        """The code of an object that raises the reason why the actor can never run; None: it can run."""
        if not _options.is_bound(self._options):
            return None
        from miniray._core_api import scheduling as _scheduling
        if not _core.is_initialized():
            _api.auto_init()
        refusal = _scheduling.refused_actor(self._options)
        return None if refusal is None else _pickle.dump_function(refusal)

    def _made_of(self):
        """The class, or an object that creates its instances in a separate environment."""
        from miniray._actors import concurrency as _concurrency
        from miniray._actors import retries as _retries
        from miniray._core_api import task_context as _task_context
        cls = _retries.with_methods(self._class, self._options.get("max_task_retries"))
        made_of = _concurrency.made_of(cls, _options.count("max_concurrency", self._options.get("max_concurrency"), 1),
                                      self._options.get("concurrency_groups"))
        return _task_context.actor(made_of, self._options)

    def _get_or_create(self, args, kwargs):
        while True:
            try:
                return _api.get_actor(self._options["name"], self._options.get("namespace"))
            except ValueError:
                pass
            try:
                return self._create(args, kwargs)
            except ValueError:  # another process has created the actor meanwhile
                continue

    def __getattr__(self, name):
        """Attributes and functions of the class, which run in this process."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_class"], name)

    def __call__(self, *args, **kwargs):
        raise TypeError(f"Actors cannot be instantiated directly. Instead of '{self.__name__}()', use "
                        f"'{self.__name__}.remote()'.")

    def __reduce__(self):
        return ActorClass, (self._class, self._options)

    def __repr__(self):
        return f"ActorClass({self.__name__})"


def _checker(cls):
    """check(args, kwargs) of the constructor."""
    if cls.__init__ is object.__init__ and cls.__new__ is object.__new__:
        least, most, check = 0, 0, _signature.Check(described=(cls.__qualname__, 0, ()))
    else:
        least, most, check = _signature.limits(cls.__new__ if cls.__init__ is object.__init__ else cls.__init__, 1)

    def quick(args, kwargs):
        if kwargs or len(args) < least or 0 <= most < len(args):
            check(args, kwargs)
    return quick
