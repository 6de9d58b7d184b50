"""The methods of an actor class, as its handles know them: {name: (least, most, check, num_returns, max_pending_calls
or 0, retries)}; retries are as in _options.method_retries.

A handle from another process reads them from the description that the actor's creator gave to the node, once for
each class.
"""

from miniray._core_api import options as _options, signature as _signature
from miniray._core_api.tracebacks import public

_ROOM = 8 * 1024  # MR_ABOUT_MAX
_GENERATOR = 0x20 | 0x200  # bits of co_flags: plain and async generators
_SPECIAL = ("__call__", "__len__", "__getitem__")
_LOADED_MAX = 256
_KINDS = type(lambda: None), staticmethod, classmethod  # types of methods in a class
_own_limits = {}  # {name in OWN: (least, most, check) of its arguments}
_plain = {}  # {(class, name): function of OWN}, for classes without such a method
_loaded = {}  # {arguments of load: its result}; cleared when it is full


@public
def method(*bare, num_returns=None, **options):
    """Options of an actor's method: `@method(num_returns=2)`. Bare `@method` changes nothing."""
    if bare:
        if len(bare) > 1 or not callable(bare[0]) or options or num_returns is not None:
            raise TypeError("The @method decorator is applied bare, '@miniray.method', or with options in keyword form, "
                            "'@miniray.method(num_returns=2)'.")
        return bare[0]
    given = {**options, "num_returns": num_returns}
    _options.method_options(given)

    def decorate(function):
        function.__miniray_method__ = given
        return function
    return decorate


def of_class(cls, options):
    """The methods of a class, and those that every actor has, for actors with these options."""
    pending, retries = _options.pending_calls(options), max(0, _options.method_retries(options, 0))
    if not _own_limits:
        _own_limits.update((name, _signature.limits(function, 1)) for name, function in OWN.items())
    found = {name: (*limits, 1, pending, retries) for name, limits in _own_limits.items()}
    for name in names_of(cls):
        if name.startswith("__") and name not in _SPECIAL:
            continue
        if callable(getattr(cls, name, None)):
            function, skip = _written(cls, name)
            found[name] = (*_signature.limits(function, skip), _num_returns(function), pending,
                           _options.method_retries(options_of(function), retries))
    return found


def names_of(cls):
    """The names that the class and its bases define, without those of `object`."""
    return dict.fromkeys(name for base in cls.__mro__[:-1] for name in base.__dict__)


def _written(cls, name):
    """(function, number of leading parameters that the caller does not pass)"""
    written = next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
    if isinstance(written, staticmethod):
        return written.__func__, 0
    if isinstance(written, classmethod):
        return written.__func__, 1
    return getattr(cls, name), 1


def options_of(function):
    """The options that @method has given to a function."""
    return getattr(function, "__miniray_method__", {})


def _num_returns(function):
    given, *_ = _options.method_options(options_of(function))
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    if given != _options.NOT_GIVEN:
        return given
    return _options.STREAMING if flags & _GENERATOR else 1


# ---- The table as bytes.


def dump(class_name, table):
    """The table as bytes; without parameters if they are too large, and empty if it is still too large."""
    import pickle
    for describe in (lambda check: check.described(), lambda check: None):
        told = [(name, least, most, describe(check), *others)
                for name, (least, most, check, *others) in table.items()]
        data = pickle.dumps((class_name, told), protocol=5)
        if len(data) <= _ROOM:
            return data
    return b""


def load(data, class_name):
    """(class name, table); a table of None accepts any name."""
    key = data, class_name
    if key not in _loaded:
        if len(_loaded) >= _LOADED_MAX:
            _loaded.clear()
        _loaded[key] = _load(data, class_name)
    return _loaded[key]


def _load(data, class_name):
    if not data:
        return class_name, None
    import pickle
    class_name, told = pickle.loads(data)
    table = {}
    for name, least, most, described, *others in told:
        check = _signature.Check(described=described) if described else _anything
        table[name] = (least, most, check, *others)
    return class_name, table


def _anything(args, kwargs):
    pass


# ---- Methods of every actor.


def _ready(self):
    return True


def _call(self, function, *args, **kwargs):
    return function(self, *args, **kwargs)


def _terminate(self):
    from miniray._core_api import actor_exit as _actor_exit
    _actor_exit.exit_actor()


def _of_sync(name):
    """A function of _sync_worker.py, which is imported when the first sync calls it."""
    from miniray._weights import _sync_worker
    return getattr(_sync_worker, name)


def _get_weights(self):
    return _of_sync("get_weights")(self)


def _lend_weights(self):
    return _of_sync("lend_weights")(self)


def _set_weights(self, weights):
    return _of_sync("set_weights")(self, weights)


OWN = {"__ray_ready__": _ready, "__ray_call__": _call, "__ray_terminate__": _terminate,
       "__ray_get_weights__": _get_weights, "__ray_lend_weights__": _lend_weights, "__ray_set_weights__": _set_weights}


def _bound(instance, name):
    """The method of the class, bound, even if an attribute of the instance hides it; None: the class has none."""
    cls = type(instance)
    for base in cls.__mro__:
        if name in base.__dict__:
            written = base.__dict__[name]
            return written.__get__(instance, cls) if type(written) in _KINDS else None
    return None


def found_method(instance, name):
    """The method that a call names ("method@group"), bound to the instance."""
    found = _bound(instance, name)
    if found is not None:
        return found
    known = _plain.get((type(instance), name))
    return _found_method(instance, name) if known is None else known.__get__(instance)


def _found_method(instance, called):
    name, _, _, again = _options.of_call(called)
    found = _bound(instance, name) or getattr(instance, name, None)
    if found is None:
        found = OWN[name].__get__(instance)
        if name == called:
            _plain[type(instance), name] = OWN[name]
    if not again:
        return found
    from miniray._actors import retries as _retries
    return _retries.as_told(found)
