"""Actor classes: what @remote makes of a class."""

from miniray import _core, _options, _pickle, _signature


def method(*, num_returns=1):
    """Options of an actor's method: `@method(num_returns=2)`."""
    def decorate(function):
        function.__miniray_num_returns__ = _options.count("num_returns", num_returns, 1)
        return function
    return decorate


def make_class(cls, options):
    if issubclass(cls, BaseException):
        raise TypeError("an exception cannot be an actor")
    return ActorClass(cls, dict(options))


def _methods(cls):
    """{name: (least, most, check, num_returns)}"""
    found = {}
    for name in dir(cls):
        if name.startswith("__") and name not in ("__call__", "__len__", "__getitem__"):
            continue
        function = getattr(cls, name, None)
        if callable(function):
            written = next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
            skip = 0 if isinstance(written, (staticmethod, classmethod)) else 1
            found[name] = (*_signature.limits(function, skip), getattr(function, "__miniray_num_returns__", 1))
    return found


class ActorClass:
    """A class whose instances are actors: `C.remote(…)` starts one."""

    def __init__(self, cls, options):
        self._class = cls
        self._options = options
        self._code = None
        self._plan = _options.actor_options(options)
        self._methods = _methods(cls)
        self._check = _checker(cls)
        self.__name__ = self.__qualname__ = cls.__name__
        self.__doc__ = cls.__doc__
        self.__module__ = cls.__module__

    def options(self, **options):
        """The same class, with other options for the actors that it starts."""
        made = ActorClass(self._class, {**self._options, **options})
        if "max_concurrency" not in options:
            made._code = self._code
        return made

    def remote(self, *args, **kwargs):
        """Starts an actor; its handle comes back at once."""
        self._check(args, kwargs)
        name = self._options.get("name")
        if self._options.get("get_if_exists"):
            if name is None:
                raise ValueError("The actor name must be specified to use `get_if_exists`.")
            return self._get_or_create(name, args, kwargs)
        return self._create(args, kwargs)

    def _create(self, args, kwargs):
        if self._code is None:
            self._code = _pickle.dump_function(self._made_of())
        return _core.create_actor(self.__name__, self._code, self._plan, args, kwargs, self._methods)

    def _made_of(self):
        """The class, or what hosts its instances when they run several methods at once."""
        concurrency = _options.count("max_concurrency", self._options.get("max_concurrency"), 1)
        from miniray import _concurrent
        if concurrency > 1 or _concurrent.is_async(self._class):
            return _concurrent.Maker(self._class, concurrency)
        return self._class

    def _get_or_create(self, name, args, kwargs):
        while True:
            try:
                return _core.get_actor(name)
            except ValueError:
                pass
            try:
                return self._create(args, kwargs)
            except ValueError:  # somebody was faster
                continue

    def __call__(self, *args, **kwargs):
        raise TypeError(f"Actors cannot be instantiated directly. Instead of '{self.__name__}()', use "
                        f"'{self.__name__}.remote()'.")

    def __reduce__(self):
        return make_class, (self._class, self._options)

    def __repr__(self):
        return f"ActorClass({self.__name__})"


def _checker(cls):
    """check(args, kwargs) of the constructor"""
    if cls.__init__ is object.__init__:
        return _no_arguments if cls.__new__ is object.__new__ else _signature.limits(cls.__new__, 1)[2]
    least, most, check = _signature.limits(cls.__init__, 1)

    def quick(args, kwargs):
        if kwargs or len(args) < least or 0 <= most < len(args):
            check(args, kwargs)
    return quick


def _no_arguments(args, kwargs):
    if args or kwargs:
        raise TypeError("too many positional arguments" if args else "got an unexpected keyword argument")
