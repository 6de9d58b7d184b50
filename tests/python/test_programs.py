"""The programs of the documents on which Miniray is based, unchanged except for the time that they sleep."""

SHARDED = """
import time, numpy as np, miniray as ray
ray.init()

@ray.remote
class ParameterServer(object):
    def __init__(self, dim):
        self.params = np.zeros(dim)
    def get_params(self):
        return self.params
    def update_params(self, grad):
        self.params += grad

@ray.remote
def worker(*parameter_servers):
    for _ in range(100):
        parameter_shards = ray.get([ps.get_params.remote() for ps in parameter_servers])
        params = np.concatenate(parameter_shards)
        grad = np.ones(10)
        time.sleep(0.2)
        grad_shards = np.split(grad, len(parameter_servers))
        for ps, grad in zip(parameter_servers, grad_shards):
            ps.update_params.remote(grad)

parameter_servers = [ParameterServer.remote(5) for _ in range(2)]
workers = [worker.remote(*parameter_servers) for _ in range(2)]
for _ in range(5):
    time.sleep(1)
    print(ray.get([ps.get_params.remote() for ps in parameter_servers]))
"""

FIRST = """
import time, numpy as np, miniray as ray
ray.init()

@ray.remote
class ParameterServer(object):
    def __init__(self, dim):
        self.params = np.zeros(dim)
    def get_params(self):
        return self.params
    def update_params(self, grad):
        self.params += grad

ps = ParameterServer.remote(10)
@ray.remote
def worker(ps):
    for _ in range(100):
        params = ray.get(ps.get_params.remote())
        grad = np.ones(10)
        time.sleep(0.2)
        ps.update_params.remote(grad)
for _ in range(2):
    worker.remote(ps)
ray.get(ps.get_params.remote())   # array([64., 64., …]), later array([78., 78., …])
"""

WATCH = """
before = ray.get(ps.get_params.remote())
while ray.get(ps.get_params.remote())[0] < 20:
    time.sleep(0.01)
print("grew")
"""


def faster(program):
    return program.replace("time.sleep(0.2)", "time.sleep(0.01)").replace("time.sleep(1)", "time.sleep(0.1)")


def test_a_sharded_parameter_server(run_program):
    done = run_program(faster(SHARDED))
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 5 and all(line.startswith("[array([") for line in lines), done.stdout
    assert lines[0] != lines[-1]
    assert done.stderr == ""


def test_a_parameter_server_whose_futures_are_dropped(run_program):
    done = run_program(faster(FIRST) + WATCH)
    assert done.stdout == "grew\n"
    assert done.stderr == ""
