from miniray import RemoteFunction as RemoteFunction
