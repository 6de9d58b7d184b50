from typing import NoReturn

from miniray import ActorClass as ActorClass, ActorHandle as ActorHandle, ActorMethod as ActorMethod, method as method

ActorProxy = ActorHandle

class ActorClassInheritanceException(TypeError): ...

def exit_actor() -> NoReturn: ...
